"""What the judge has on the GPU: a context, a bench for the reference, a page for the candidate.

Made once a process, under the gate. The canary is the tick kernel, launched in the judge's own
context and waited for: 23-29 us beside idle or parked contexts, about 164 us right after another
context has run, 2,400 us (one time slice) while one is busy. Those are the prototype's numbers on
an H200; the limit for "right after" is calibrated with empty brackets (`Deck.after_limit_us`).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from kernelgym.cuda import armed, device
from kernelgym.cuda.device import Device
from kernelgym.cuda.driver import Driver, driver
from kernelgym.cuda.page import DevicePage, Slot
from kernelgym.cuda.snapshot import Snapshot
from kernelgym.errors import KernelGymError
from kernelgym.judge import rehearsal
from kernelgym.judge.quick import Agreement
from kernelgym.judge.watchdog import Watchdog
from kernelgym.trace.attribution import Tracer
from kernelgym.trace.cupti import Cupti

QUIET_US = 150.0
"""A canary slower than this had company."""


TRUSTED_S = 600.0


@dataclass(frozen=True)
class Trusted:
    """Empty brackets of a harness that has not run a line of a candidate, in us."""

    empty_us: float
    """Body."""
    lead_us: float
    """From the flag to the start mark: mostly the switch to its context."""
    after_us: float
    """The canary afterwards."""
    taken_s: float
    """On the monotonic clock."""


@dataclass
class Deck:
    """The judge's equipment."""

    driver: Driver
    facts: Device
    bench: armed.Bench
    """For the reference, with a page of its own."""
    snapshot: Snapshot
    page: DevicePage
    """Flags and marks of the candidate that is being timed."""
    tracer: Tracer | None
    """None where there is no profiler; ``no_tracer`` says why."""
    no_tracer: str = ""
    agreement: Agreement | None = None
    """Compares answers of timed calls; None where torch does it."""
    rng: random.Random = field(default_factory=random.SystemRandom)
    watchdog: Watchdog = field(default_factory=Watchdog)
    empty: tuple[float, float] | None = None
    """Empty bracket of the reference in us, and when it was measured (monotonic)."""
    after_limit_us: float = 2 * QUIET_US
    trusted: Trusted | None = None
    """The last empty brackets of a harness that had not run a line of a candidate."""
    _value: int = 0

    def next_value(self) -> int:
        """A fresh value for flags and marks."""
        self._value += 1
        return self._value

    def new_page(self) -> DevicePage:
        """A page for the next candidate: the one before may still be mapped somewhere."""
        self.page.close()
        self.page = DevicePage(self.driver)
        return self.page

    def settle(self) -> None:
        """Wait until everything that this process queued is done."""
        self.driver.call("cuCtxSynchronize")

    def flush_and_raise(self, value: int, *, forget: bool) -> None:
        """Queue: make the cache cold, persisting lines too with ``forget``, then raise the flag.

        The device does it, behind everything that was queued before, so that no other context has
        a gap to run in between the inputs' arrival and the flag.
        """
        stream = self.driver.stream()
        self.bench.flush.queue(stream, forget=forget)
        self.bench.page.write(stream, Slot.RAISED, value)
        self.page.write(stream, Slot.FLAG, value)

    def raise_now(self, value: int) -> None:
        """Raise the flag by the CPU."""
        self.bench.page.set(Slot.RAISED, value)
        self.page.set(Slot.FLAG, value)

    def canary_us(self) -> float:
        """Time from launching the tick to its end."""
        stream = self.driver.stream()
        started = time.perf_counter_ns()
        self.bench.kernels.tick(stream)
        self.driver.call("cuStreamSynchronize", stream)
        return (time.perf_counter_ns() - started) / 1e3

    def trust(self, found: Trusted) -> None:
        """Learn what honest empty brackets take, and the canary right after them."""
        self.trusted = found
        self.after_limit_us = found.after_us + QUIET_US

    def needs_trust(self) -> bool:
        """Whether brackets of a harness that is still ours have to be taken (again)."""
        return self.trusted is None or time.monotonic() - self.trusted.taken_s > TRUSTED_S

    def wait_until_quiet(self, limit_s: float = 0.5) -> float:
        """Run canaries until one is quick; the last one's time."""
        deadline = time.monotonic() + limit_s
        while (found := self.canary_us()) > QUIET_US and time.monotonic() < deadline:
            pass
        return found

    def free_bytes(self) -> int:
        """Memory of the device that nobody uses."""
        return int(self.driver.call("cuMemGetInfo")[0])


_DECK: list[Deck] = []


def deck() -> Deck:
    """The equipment of this process, made on first use."""
    if not _DECK:
        facts = device.use()
        _DECK.append(make(driver(), facts))
        device.reserve(min(RESERVED_BYTES, _DECK[0].free_bytes() // 24))
        agreement = Agreement(_DECK[0].bench.kernels, _DECK[0].driver.stream)
        if rehearsal.rehearse(agreement=agreement):
            _DECK[0].agreement = agreement
        else:  # it would accept what is wrong, or nothing
            rehearsal.rehearse()
    return _DECK[0]


RESERVED_BYTES = 4 << 30
"""Most memory that a judge sets aside for inputs, answers and comparisons; a 24th of what is
free on a smaller device."""


def make(on: Driver, facts: Device) -> Deck:
    """Equipment on a driver."""
    tracer, why = None, ""
    try:
        tracer = Tracer(Cupti())
        tracer.start()  # the first time takes ten times as long
        tracer.stop()
    except KernelGymError as error:
        why = str(error)
    bench = armed.Bench.make(on, facts.l2_bytes)
    return Deck(on, facts, bench, Snapshot(on), DevicePage(on), tracer, why)
