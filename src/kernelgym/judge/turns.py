"""When an evaluation has the GPU, and how.

    blocks of the reference, timed calls from the moment they are queued        alone
    the rest of a light task: constructor, trials, probes, comparing answers    beside others' rest
    the rest of any other task                                                  alone

Nothing that is timed ever runs beside anything. What is only checked does not get less strict by
company, and most of its time passes on CPUs: side by side, evaluations fill the device. Calls that
are long, or need much memory, have it to themselves: somebody who waits to time waits for the call
that is under way, and memory that others take must not be missing in an honest call. A light task
loses that right when its candidate's calls are long, and ends alone as well when it has waited for
long, which it does beside heavy ones: else it would wait for one of them at every call.

On a CPU there is nothing to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelgym.judge.gate import WAIT_LIMIT_S, Gate, GateMisuse, State
from kernelgym.judge.peer import PeerForged

Announce = Callable[[str, float | None], None]
ENOUGH_S = 2.0
"""Having waited for so long in all, an evaluation has the device alone to its end."""
LONG_CALL_S = 0.05
"""A candidate's call that takes longer, compiling apart, is not light: most take a few ms."""
LONG_CALLS = 3
"""With so many of them the task is not light. First calls load libraries."""


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
        self._announce = announce
        self._settle = settle
        self._long_calls = 0

    @property
    def waited_s(self) -> float:
        """Seconds that the evaluation has waited for the device."""
        return 0.0 if self._gate is None else self._gate.waited_s

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
        self._be_alone()
        try:
            self._announce(stage, None)
            yield
        finally:
            if not self._ends_alone():
                self._release()  # others who wait to be alone come before we are beside them
                self._take(alone=False)
                self._announce(stage, None)

    def step_aside(self, stage: str) -> None:
        """Between two calls that nobody times; ``stage`` is what comes now."""
        if self._gate is not None and self.shared:
            if self._ends_alone():
                self._be_alone()
            else:
                self._settle()
                self._gate.step_aside(self._waits)
        self._announce(stage, None)

    @contextmanager
    def weighed(self) -> Iterator[None]:
        """Around a call of the candidate: its length tells whether the task stays a light one."""
        started = time.monotonic() - self._elsewhere_s()
        yield
        spent_s = time.monotonic() - self._elsewhere_s() - started
        self._long_calls += spent_s > LONG_CALL_S

    def _elsewhere_s(self) -> float:
        """Seconds in which the candidate compiled, or waited for its turn."""
        return 0.0 if self._gate is None else self._gate.waited_s + self._gate.lent_s

    def _ends_alone(self) -> bool:
        """Whether this evaluation shares no more."""
        return self._long_calls >= LONG_CALLS or self.waited_s > ENOUGH_S

    def _be_alone(self) -> None:
        self._release()
        self._take(alone=True)

    def lend(self, back: bool) -> bool:
        """A candidate is about to compile, or (``back``) wants to go on; whether that changed whose
        the device is.

        While it is being prepared the gate is not held for it, so there is nothing to lend.
        """
        if self._gate is None or self._gate.state is State.FREE:
            return False
        try:
            if back:
                self._gate.compiled(self._waits)
                self._announce("candidate", None)
            else:
                self._gate.compiling()
        except GateMisuse as error:
            raise PeerForged("forward", str(error)) from error
        return True

    def _take(self, *, alone: bool) -> None:
        if self._gate is not None:
            self._gate.acquire(alone=alone, waits=self._waits)

    def _release(self) -> None:
        if self._gate is not None:
            try:
                self._settle()
            finally:
                self._gate.release()

    def _waits(self) -> None:
        self._announce("gate", WAIT_LIMIT_S)
