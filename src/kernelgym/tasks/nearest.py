"""The words of a did-you-mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(wrong: str, known: Iterable[str], limit: int = 3) -> str:
    """``"; did you mean a or b?"`` with the nearest known names, or an empty string."""
    known = list(known)
    near = difflib.get_close_matches(wrong, known, n=limit, cutoff=0.6)
    if not near:
        tail = wrong.rpartition("/")[2]
        near = [name for name in known if tail and tail in name][:limit]
    return f"; did you mean {' or '.join(near)}?" if near else ""
