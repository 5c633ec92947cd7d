"""Identifiers of generated C and C++: from the model's own names, unique, never a keyword."""

from __future__ import annotations

import re

KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long main mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual
    void volatile wchar_t while xor xor_eq
    ap_fixed ap_int ap_uint ap_ufixed hls inr std
    """.split()
)


def identifier(name: str) -> str:
    """
    A C identifier close to `name`: other characters become underscores, runs of them one, and
    a leading digit or a keyword gets an underscore.
    """
    word = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or "unnamed"
    if word[0].isdigit() or word in KEYWORDS:
        word = f"_{word}" if word[0].isdigit() else f"{word}_"
    return word


class Names:
    """Hands out identifiers, each once: the second `copy_x` is `copy_x_2`."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, name: str) -> str:
        """An identifier close to `name` that was not given before."""
        base = identifier(name)
        word, count = base, 1
        while word in self._taken:
            count += 1
            word = f"{base}_{count}"
        self._taken.add(word)
        return word
