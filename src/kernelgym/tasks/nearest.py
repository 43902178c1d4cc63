"""The words of a did-you-mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_CUTOFF = 0.6
_CLOSE_TO_BEST = 0.1


def did_you_mean(wrong: str, known: Iterable[str], limit: int = 3) -> str:
    """``"; did you mean a or b?"`` with the nearest known names, or an empty string."""
    known = list(known)
    tail = wrong.rpartition("/")[2]
    scores = {name: difflib.SequenceMatcher(None, wrong, name).ratio() for name in known}
    best = max(scores.values(), default=0.0)
    near = [
        name
        for name in sorted(known, key=lambda name: -scores[name])
        if scores[name] >= max(_CUTOFF, best - _CLOSE_TO_BEST)
    ] or [name for name in known if tail and tail in name]
    return f"; did you mean {' or '.join(near[:limit])}?" if near else ""
