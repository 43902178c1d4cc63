"""When an evaluation has the GPU, and how.

    blocks of the reference, timed calls from the moment they are queued        alone
    the rest of a light task: constructor, trials, probes, comparing answers    beside others' rest
    the rest of any other task                                                  alone

Nothing that is timed ever runs beside anything. What is only checked does not get less strict by
company, and most of its time passes on CPUs: side by side, evaluations fill the device. Calls that
are long, or need much memory, have it to themselves: somebody who waits to time waits for the call
that is under way, and memory that others take must not be missing in an honest call.

On a CPU there is nothing to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelgym.judge.gate import WAIT_LIMIT_S, Gate, GateMisuse, State
from kernelgym.judge.peer import PeerForged

Announce = Callable[[str, float | None], None]


class Turns:
    """The gate of one evaluation, with what is told to the host meanwhile."""

    def __init__(
        self, gate: Gate | None, announce: Announce, settle: Callable[[], None] = lambda: None
    ) -> None:
        """``gate``: None without a GPU. ``announce(stage, limit_s)`` says what runs now.

        ``settle`` waits for what we have queued on the device: it must be over before somebody else
        is alone there. A candidate's harness waits for its own before it answers.
        """
        self._gate = gate
        if gate is not None:
            gate.loans = 0  # of one evaluation
        self._announce = announce
        self._settle = settle
        self.waited_s = 0.0
        """Seconds of waiting for the device."""

    @property
    def shared(self) -> bool:
        """Whether others may be on the device now."""
        return self._gate is not None and self._gate.state is State.SHARED

    @contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:
        """The device for a block."""
        self._take(alone=alone)
        try:
            yield
        finally:
            self._release()

    @contextmanager
    def alone(self, stage: str) -> Iterator[None]:
        """Inside `held`: a block of timed calls, called ``stage``; afterwards as before."""
        if not self.shared:
            self._announce(stage, None)
            yield
            return
        self._release()
        self._take(alone=True)
        try:
            self._announce(stage, None)
            yield
        finally:
            self._release()  # others who wait to be alone come before we are beside them
            self._take(alone=False)
            self._announce(stage, None)

    def step_aside(self, stage: str) -> None:
        """Between two calls that nobody times; ``stage`` is what comes now."""
        if self._gate is not None and self.shared:
            self._settle()
            with self._clocked():
                self._gate.step_aside(self._waits)
        self._announce(stage, None)

    def lend(self, back: bool) -> bool:
        """A candidate is about to compile, or (``back``) wants to go on; whether that changed whose
        the device is.

        While it is being prepared the gate is not held for it, so there is nothing to lend.
        """
        if self._gate is None or self._gate.state is State.FREE:
            return False
        try:
            if back:
                with self._clocked():
                    self._gate.compiled(self._waits)
                self._announce("candidate", None)
            else:
                self._gate.compiling()
        except GateMisuse as error:
            raise PeerForged("forward", str(error)) from error
        return True

    def _take(self, *, alone: bool) -> None:
        if self._gate is not None:
            with self._clocked():
                self._gate.acquire(alone=alone, waits=self._waits)

    def _release(self) -> None:
        if self._gate is not None:
            try:
                self._settle()
            finally:
                self._gate.release()

    @contextmanager
    def _clocked(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.waited_s += time.monotonic() - started

    def _waits(self) -> None:
        self._announce("gate", WAIT_LIMIT_S)
