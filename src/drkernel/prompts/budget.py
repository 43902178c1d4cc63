"""Texts that must not be longer than so many tokens, built from sections by importance.

The same sections and the same budget always give the same text. Without a tokenizer tokens are
estimated from above (`estimate_tokens`); with one, pass its counting function.

Not covered: cutting inside a word nicely, and budgets over several messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Count = Callable[[str], int]
_BYTES_A_TOKEN = 3
_CUT = "[...]"
_SHORTEST_PART = 24
"""Bytes below which a cut section is left out instead."""


def estimate_tokens(text: str) -> int:
    """Tokens of a text, estimated from above: one for every three bytes of UTF-8.

    >>> estimate_tokens(""), estimate_tokens("tl.load(x)")
    (0, 4)
    """
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN)


@dataclass(frozen=True)
class Section:
    """A part of a text."""

    text: str
    """What it says; an empty one is left out."""
    rank: int
    """Importance: lower ranks are served first."""
    keep: str = "all"
    """What survives when it does not fit: ``head`` or ``tail`` keeps that end, ``all`` means
    whole or not at all."""


def fit(sections: Sequence[Section], budget_tokens: int, count: Count = estimate_tokens) -> str:
    """The sections in the order given, blank lines between them, in at most ``budget_tokens``.

    >>> fit([Section("verdict", 0), Section("a long trace " * 9, 1)], 20)
    'verdict'
    """
    chosen: dict[int, str] = {}
    for index in sorted(range(len(sections)), key=lambda i: (sections[i].rank, i)):
        section = sections[index]
        if not section.text:
            continue
        whole = {**chosen, index: section.text}
        if count(_joined(whole)) <= budget_tokens:
            chosen = whole
        elif section.keep != "all":
            part = _longest_part(section, chosen, index, budget_tokens, count)
            if part:
                chosen[index] = part
    return _joined(chosen)


def _joined(chosen: dict[int, str]) -> str:
    return "\n\n".join(chosen[index] for index in sorted(chosen))


def _longest_part(
    section: Section, chosen: dict[int, str], index: int, budget_tokens: int, count: Count
) -> str:
    """The longest head or tail that fits, found by bisection over characters."""
    low, high = 0, len(section.text)
    while low < high:
        middle = (low + high + 1) // 2
        text = _joined({**chosen, index: _part(section, middle)})
        low, high = (middle, high) if count(text) <= budget_tokens else (low, middle - 1)
    return _part(section, low) if low >= _SHORTEST_PART else ""


def _part(section: Section, characters: int) -> str:
    if section.keep == "tail":
        return f"{_CUT}\n{section.text[len(section.text) - characters :]}"
    return f"{section.text[:characters]}\n{_CUT}"
