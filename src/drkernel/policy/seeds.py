"""A seed for each call, from the run's seed and the call's key."""

from __future__ import annotations

import hashlib


def seed_of(seed: int, key: str) -> int:
    """A seed for one call: 31 bits, other ones for other keys.

    >>> seed_of(1, "a") == seed_of(1, "a"), seed_of(1, "a") == seed_of(1, "b")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(f"{seed}\0{key}".encode()).digest()[:4], "big") >> 1
