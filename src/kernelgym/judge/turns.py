"""When an evaluation has the GPU, and how.

    blocks of the reference, timed calls        alone
    constructor, trials, probes of a task whose calls are short and small
                                                beside the untimed calls of others
    the same of any other task                  alone

Nothing that is timed ever runs beside anything. What is only checked does not get less strict by
company, and most of its time passes on CPUs: side by side, evaluations fill the device. Calls that
are long, or need much memory, have it to themselves: somebody who waits to time waits for the call
that is under way, and memory that others take must not be missing in an honest call.

On a CPU there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelgym.judge.gate import WAIT_LIMIT_S, Gate, GateMisuse, State
from kernelgym.judge.peer import PeerForged

Announce = Callable[[str, float | None], None]


class Turns:
    """The gate of one evaluation, with what is told to the host meanwhile."""

    def __init__(self, gate: Gate | None, announce: Announce) -> None:
        """``gate``: None without a GPU. ``announce(stage, limit_s)`` says what runs now."""
        self._gate = gate
        self._announce = announce

    @contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:
        """The device for a block."""
        self.take(alone=alone)
        try:
            yield
        finally:
            self.release()

    def take(self, *, alone: bool) -> None:
        """Wait for the device."""
        if self._gate is not None:
            self._announce("gate", WAIT_LIMIT_S)
            self._gate.acquire(alone=alone)

    def release(self) -> None:
        """Give it back."""
        if self._gate is not None:
            self._gate.release()

    @contextmanager
    def alone(self, stage: str) -> Iterator[None]:
        """Inside `held`: a block of timed calls, called ``stage``; afterwards as before.

        Whoever leaves it by an exception has nothing any more: the evaluation is over.
        """
        if self._gate is None or self._gate.state is not State.SHARED:
            self._announce(stage, None)
            yield
            return
        self._gate.release()
        self.take(alone=True)
        try:
            self._announce(stage, None)
            yield
        except BaseException:
            self._gate.release()
            raise
        self._gate.share()

    def step_aside(self) -> None:
        """Between two calls that nobody times."""
        if self._gate is not None:
            self._gate.step_aside(lambda: self._announce("gate", WAIT_LIMIT_S))

    def lend(self, back: bool) -> None:
        """A candidate is about to compile, or (``back``) wants to go on.

        While it is being prepared the gate is not held for it, so there is nothing to lend.
        """
        if self._gate is None or self._gate.state is State.FREE:
            return
        try:
            if back:
                self._announce("gate", WAIT_LIMIT_S)
                self._gate.compiled()
                self._announce("candidate", None)
            else:
                self._gate.compiling()
        except GateMisuse as error:
            raise PeerForged("forward", str(error)) from error
