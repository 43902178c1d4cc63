"""Train, validation or test: decided by the set of operators, so that no set is in two splits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from kernelgym.tasks.synth.record import Split

VALIDATION_SHARE = 0.1
TEST_SHARE = 0.1


def combination(operators: Iterable[str]) -> str:
    """The set of operators as text."""
    return "+".join(sorted(set(operators)))


def split_of(operators: Iterable[str]) -> Split:
    """The split of every task with this set of operators, whatever seed it was made from."""
    digest = hashlib.sha256(combination(operators).encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64
    if point < TEST_SHARE:
        return "test"
    return "validation" if point < TEST_SHARE + VALIDATION_SHARE else "train"
