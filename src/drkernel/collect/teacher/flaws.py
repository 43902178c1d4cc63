"""Mistakes, as models make them: a wrong constant, a dropped operation, a function that is not
there. Each turns the source of a sound module into that of an unsound one."""

from __future__ import annotations

import random
import re

_WRONG = (
    (r"0\.7071067811865476", "0.5"),
    (r"/ n \+ 1", "+ 1"),
    (r"tl\.maximum\(", "tl.minimum("),
    (r"np\.maximum\(", "np.minimum("),
    (r"tl\.sigmoid\(", "tl.exp("),
    (r"(v\d+) = (\w+) \* (\w+)\n", r"\1 = \2 + \3\n"),
    (r"(v\d+) = (\w+) \+ (\w+)\n", r"\1 = \2 - \3\n"),
    (r"(v\d+) = (\w+) - (\w+)\n", r"\1 = \3 - \2\n"),
    (r"tl\.max\(", "tl.min("),
    (r"\+ bias\b", "- bias"),
)
_ALWAYS_WRONG = (
    (r"tl\.store\(([^,]+), (\w+)", r"tl.store(\1, \2 * 1.25"),
    (r"_out\[i\] = (\w+)", r"_out[i] = \1 * 1.25"),
    (r"out\[i\] = (\w+)", r"out[i] = \1 * 1.25"),
)
_BROKEN = (
    (r"tl\.exp\(", "tl.exponent("),
    (r"tl\.sigmoid\(", "tl.logistic("),
    (r"tl\.maximum\(", "tl.fmax("),
    (r"tl\.erf\(", "tl.error_function("),
    (r"tl\.sum\(", "tl.reduce_sum("),
    (r"tl\.dot\(", "tl.matmul("),
    (r"np\.exp\(", "np.exponential("),
    (r"np\.maximum\(", "np.largest("),
    (r"np\.sum\(", "np.total("),
)
_ALWAYS_BROKEN = (
    (r"inside = offsets < total", "inside = offsets < size"),
    (r"inside = columns < n", "inside = columns < width"),
    (r"total = tl\.zeros\(", "total = tl.zero("),
    (r"_out\[i\] = (\w+)", r"_out[i] = \1s"),
    (r"out\[i\] = (\w+)", r"out[i] = \1s"),
)


def wrong(source: str, draw: random.Random) -> str:
    """A module that runs and computes something else."""
    return _mutate(source, _WRONG, _ALWAYS_WRONG, draw)


def broken(source: str, draw: random.Random) -> str:
    """A module that does not compile, or raises."""
    return _mutate(source, _BROKEN, _ALWAYS_BROKEN, draw)


def _mutate(
    source: str,
    preferred: tuple[tuple[str, str], ...],
    fallback: tuple[tuple[str, str], ...],
    draw: random.Random,
) -> str:
    fitting = [one for one in preferred if re.search(one[0], source)]
    fitting = fitting or [one for one in fallback if re.search(one[0], source)]
    if not fitting:
        return source
    pattern, replacement = draw.choice(fitting)
    return re.sub(pattern, replacement, source, count=1)
