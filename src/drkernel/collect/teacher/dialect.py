"""The same arithmetic in several kernel languages: formulas of `meaning` spelled out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_ATOM = re.compile(r"[\w.]+")


@dataclass(frozen=True)
class Dialect:
    """How one language writes the functions of the formulas."""

    functions: Mapping[str, tuple[str, str]]
    """Name in a formula to the text that opens the call and the one that closes it."""
    helpers: Mapping[str, str]
    """Functions that a module must define when it uses them, by name."""

    def spell(self, formula: str, values: Mapping[str, str]) -> str:
        """The formula with operands and functions in place."""
        text = re.sub(r"\b[a-z]\b", lambda found: _operand(values.get(found[0], found[0])), formula)
        for name, (opening, closing) in self.functions.items():
            while (start := _find_call(text, name)) >= 0:
                inside = start + len(name) + 1
                end = _closing(text, inside)
                text = text[:start] + opening + text[inside:end] + closing + text[end + 1 :]
        return text

    def helpers_in(self, text: str) -> list[str]:
        """Sources of the helpers that the text calls."""
        return [code for name, code in self.helpers.items() if re.search(rf"\b{name}\(", text)]


def _operand(text: str) -> str:
    return text if _ATOM.fullmatch(text) else f"({text})"


def _find_call(text: str, name: str) -> int:
    found = re.search(rf"(?<![\w.]){name}\(", text)
    return found.start() if found else -1


def _closing(text: str, start: int) -> int:
    """Position of the bracket that closes the one just before ``start``."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise AssertionError(f"unbalanced formula: {text}")


def _calls(module: str, **names: str) -> dict[str, tuple[str, str]]:
    return {name: (f"{module}{function}(", ")") for name, function in names.items()}


TRITON = Dialect(
    functions={
        "RMAX": ('tl.max(tl.where(inside, ', ', float("-inf")), axis=0)'),
        "RSUM": ("tl.sum(tl.where(inside, ", ", 0.0), axis=0)"),
        **_calls(
            "tl.", MAX="maximum", MIN="minimum", EXP="exp", LOG="log", ABS="abs", SQRT="sqrt",
            SIN="sin", COS="cos", ERF="erf", WHERE="where", SIGMOID="sigmoid",
        ),
    },
    helpers={},
)  # fmt: skip
NUMBA = Dialect(
    functions={
        **_calls(
            "np.", RMAX="max", RSUM="sum", MAX="maximum", MIN="minimum", EXP="exp", LOG="log",
            ABS="abs", SQRT="sqrt", SIN="sin", COS="cos", WHERE="where",
        ),
        **_calls("", ERF="erf", SIGMOID="sigmoid"),
    },
    helpers={
        "erf": "@numba.vectorize\ndef erf(x):\n    return math.erf(x)\n",
        "sigmoid": "@numba.njit\ndef sigmoid(x):\n    return 1.0 / (1.0 + np.exp(-x))\n",
    },
)  # fmt: skip
