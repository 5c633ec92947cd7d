"""What the repository says of itself, held against what is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from inr.universe import INR_UNIVERSE

ROOT = Path(__file__).parents[2]


def test_packages_are_those_of_the_tree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    found = {
        f"inr.{path.parent.name}"
        for path in ROOT.glob("*/__init__.py")
        if path.parent.name not in ("tests", "build")
    }
    assert listed == found | {"inr"}


def test_pipeline_page_lists_the_registered_passes() -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text()
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))
    assert listed == set(INR_UNIVERSE.all_passes)


def test_each_pass_stands_in_the_file_of_its_name() -> None:
    for name, get in INR_UNIVERSE.all_passes.items():
        pass_class = get()
        assert pass_class.name == name
        assert pass_class.__module__ == f"inr.passes.{name.replace('-', '_')}"
        module = sys.modules[pass_class.__module__]
        assert module.__doc__, name


def test_every_dialect_has_a_page_and_its_three_lit_files() -> None:
    for name in INR_UNIVERSE.all_dialects:
        assert (ROOT / "docs" / "dialects" / f"{name}.md").exists(), name
        for kind in ("ops", "invalid", "canonicalize"):
            assert (ROOT / "tests" / "lit" / "dialects" / name / f"{kind}.mlir").exists(), name


def test_every_pass_has_a_lit_file() -> None:
    files = {path.stem for path in (ROOT / "tests" / "lit" / "passes").glob("*.mlir")}
    for name in INR_UNIVERSE.all_passes:
        assert any(stem == name or stem.startswith(f"{name}-") for stem in files), name


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys, inr.tools.inr_opt as tool\n"
        "try:\n    tool.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
        "import inr.tools.inr_compile, inr.tools.inr_import\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_only_frontend_and_runtime_may_import_torch() -> None:
    pattern = re.compile(r"^\s*(import torch|from torch)", re.MULTILINE)
    for folder in ("analysis", "dialects", "interpreters", "lowering", "passes", "tools"):
        for path in (ROOT / folder).glob("*.py"):
            text = re.sub(r"if TYPE_CHECKING:\n((    .*)?\n)+", "", path.read_text())
            assert not pattern.search(text), path
