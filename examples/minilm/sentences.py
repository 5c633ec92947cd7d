"""
English to calibrate and to judge a sentence encoder with: the prose of docstrings.

Sentences are read from the source of packages that this environment holds anyway; nothing is
imported and nothing fetched. The two sets share no package, so what is held out was written by
other people about other things. The same versions of the packages give the same sentences.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

CALIBRATION = (
    *("numpy", "scipy", "torch", "sympy", "transformers", "numba", "huggingface_hub", "fontTools"),
    *("setuptools", "hypothesis", "xdsl", "_pytest", "pygments", "jinja2", "mpmath", "click"),
    *("idlelib", "tkinter", "unittest", "importlib", "xml", "http", "urllib"),
)
"""Packages whose sentences codebooks may be fitted to; those that are not there are left out."""
HELD_OUT = ("sklearn", "matplotlib", "networkx", "asyncio", "email", "logging", "PIL", "rich")

WORDS = (5, 60)
"""The shortest and the longest sentence."""

_ROLE = re.compile(r":[\w:]+:`~?([^`<]*)(?:<[^`]*>)?`_?")
_QUOTED = re.compile(r"`+([^`]*)`+_?")
_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_PROSE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'\"()/.%-]*[.?!]")
_WORD = re.compile(r"[A-Za-z][a-z'-]*[,;:.?!)\"]*|\(?[a-z'-]+[,;:.?!)\"]*|[AI]")
_LISTED = re.compile(r"^\s*(?:[-*]|\d+\.|\.\.|\w[\w, ]* :|:\w+)", re.MULTILINE)


def calibration_sentences(count: int) -> list[str]:
    """`count` sentences, or as many as there are, of the packages CALIBRATION."""
    return _sentences(CALIBRATION, count)


def held_out_sentences(count: int) -> list[str]:
    """`count` sentences, or as many as there are, of the packages HELD_OUT."""
    return _sentences(HELD_OUT, count)


def _sentences(packages: Iterable[str], count: int) -> list[str]:
    """The packages in turn, so that a long one does not crowd out the others."""
    streams = [_of_package(name) for name in packages]
    seen: set[str] = set()
    found: list[str] = []
    while streams and len(found) < count:
        for stream in list(streams):
            sentence = next((s for s in stream if s.lower() not in seen), None)
            if sentence is None:
                streams.remove(stream)
            elif len(found) < count:
                seen.add(sentence.lower())
                found.append(sentence)
    return found


def _of_package(name: str) -> Iterator[str]:
    """The sentences of a package's files, these in an order that has nothing to do with names."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent
    files = [(p.relative_to(folder).as_posix(), p) for p in folder.rglob("*.py")]
    # Docstrings of tests are notes, one like the other.
    files = [f for f in files if "test" not in f[0]]
    for _, path in sorted(files, key=lambda f: hashlib.sha256(f[0].encode()).digest()):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue  # some packages carry broken files on purpose, as data of their tests
        yield from _of_file(tree)


def _of_file(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for paragraph in re.split(r"\n\s*\n", ast.get_docstring(node) or ""):
                yield from of_paragraph(paragraph)


def of_paragraph(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph of prose; none of a list, of code or of a table."""
    if ">>>" in paragraph or "::" in paragraph or _LISTED.search(paragraph):
        return
    text = _QUOTED.sub(r"\1", _ROLE.sub(r"\1", paragraph))
    for sentence in _ENDS.split(" ".join(text.split())):
        words = sentence.split()
        plain = sum(_WORD.fullmatch(word) is not None for word in words)
        if (
            WORDS[0] <= len(words) <= WORDS[1]
            and _PROSE.fullmatch(sentence)
            and plain >= 0.85 * len(words)
            and sentence.count("(") == sentence.count(")")
        ):
            yield sentence
