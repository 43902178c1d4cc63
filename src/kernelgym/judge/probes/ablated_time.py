"""How long a call takes with all own kernels off, by the judge's clock.

What they claim to take, the call must lose. Device records, and whose they are, come from beside
the candidate and can be forged; that a call takes less time without some kernels is seen from
outside. The conclusion is drawn in `kernelgym.judge.shares`, against the timings of record; here is
only the number. On a GPU, as part of `Ablation`, in one volley.

Not covered: replays of a CUDA graph launch nothing that could be turned off, so there is no number
where a timed call launches nothing; code that knows that its kernels are off, and waits less then.
"""

from __future__ import annotations

import statistics
from contextlib import suppress

from kernelgym.judge.correctness import PREPARE_LIMIT_S, Correctness
from kernelgym.judge.peer import PeerError
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.messages import Prepare
from kernelgym.schema import Mode

BRACKETS = 4
LEAST = 2
"""Undisturbed brackets that are needed."""
STAGE = "measure"
EVERYTHING = Prepare(fill=0x00, suppress=("*",))


def time_off(correctness: Correctness, mode: Mode) -> float | None:
    """Time of one call in us, all own kernels off; None when nothing could be learned.

    Answers are wrong meanwhile and are not looked at. Call it late: what a candidate does without
    its kernels is not held against it, and may end its process.
    """
    from kernelgym.judge.deck import deck
    from kernelgym.judge.volley import CandidateClock

    on = deck()
    timer = CandidateClock(on, correctness)
    with suppress(PeerError):
        correctness.peer.request(STAGE, Kind.PREPARE, EVERYTHING, limit_s=PREPARE_LIMIT_S)
        shots = timer.volley(mode, 1, BRACKETS)
        launched = any(shot.own_launches for shot in shots)
        empty = on.trusted.empty_us if on.trusted is not None else 0.0
        brackets = [shot.bracket for shot in shots if shot.bracket and not shot.void]
        times = [
            b.outside_us(empty, b.tail_us) for b in brackets
        ]  # copying outputs is not the call
        if launched and len(times) >= LEAST:
            return statistics.median(times)
    return None
