"""Everything that one evaluation finds out, before anybody draws a conclusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelgym.sandbox.evidence import Event, Record
from kernelgym.schema import (
    Failure,
    Finding,
    KernelRecord,
    Mode,
    Outcome,
    Timing,
    Trial,
)


@dataclass(frozen=True)
class Stop:
    """An outcome that was settled before the last stage."""

    outcome: Outcome
    failure: Failure
    finding: Finding | None = None
    """The evidence, when the outcome is ``hack``."""


@dataclass
class Measured:
    """What the measurement stage found; on a CPU only why it found nothing."""

    timings: tuple[Timing, ...] = ()
    kernels: tuple[KernelRecord, ...] = ()
    total_us: float | None = None
    generated_us: float | None = None
    coverage: float | None = None
    displaced: float | None = None
    min_bytes: int | None = None
    flops: int | None = None
    bandwidth_share: float | None = None
    flops_per_s: float | None = None
    findings: list[Finding] = field(default_factory=list)
    not_measured: dict[str, str] = field(default_factory=dict)


LaunchKey = tuple[str, bool, tuple[int, int, int]]
"""Name, own, grid."""


@dataclass
class Evidence:
    """Records of one mode."""

    calls: int = 0
    """Forward calls that the records stem from."""
    launches: Counter[LaunchKey] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    digests: dict[str, str] = field(default_factory=dict)
    """Own kernels: name by digest in hex."""
    calls_with_own: list[bool] = field(default_factory=list)
    """For each call, whether it launched a kernel of the candidate's own."""

    def add(self, records: list[Record]) -> None:
        """Sort records of one call in."""
        self.calls += 1
        records = _that_ran(records)
        self.calls_with_own.append(any(r.event is Event.LAUNCH and r.own for r in records))
        for record in records:
            if record.event is Event.LAUNCH:
                self.launches[record.name, record.own, record.grid] += 1
                if record.own:
                    self.digests[record.digest.hex()] = record.name
            elif record.event is Event.OPERATOR:
                self.operators[record.name] += record.count

    @property
    def own_launches(self) -> int:
        """Launches of kernels from the candidate's source."""
        return sum(count for (_, own, _), count in self.launches.items() if own)


def _that_ran(records: Sequence[Record]) -> list[Record]:
    """Without launches that have raised."""
    kept: list[Record] = []
    for record in records:
        if record.event is not Event.FAILED:
            kept.append(record)
            continue
        for index in range(len(kept) - 1, -1, -1):
            if kept[index].event is Event.LAUNCH and kept[index].digest == record.digest:
                del kept[index]
                break
    return kept


@dataclass
class Dossier:
    """The file of one evaluation."""

    trials: list[Trial] = field(default_factory=list)
    evidence: dict[Mode, Evidence] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """Sentences of the harness, e.g. that autotune was cut."""
    findings: list[Finding] = field(default_factory=list)
    compiled: list[KernelRecord] = field(default_factory=list)
    missing_state: tuple[str, ...] = ()
    """State of the reference that the candidate does not have under that name and shape."""
    seeds: dict[str, int] = field(default_factory=dict)
    jail: str = "none"
    jail_missing: tuple[str, ...] = ()
    peak_bytes: int | None = None
    probes: tuple[str, ...] = ()
    """Names of the probes that were on."""
    switches: str = ""
    """What the candidate's process says of torch's switches after its import."""
    on_gpu: bool = False
    idle: dict[str, str] = field(default_factory=dict)
    """Own kernels that the answer does not need, or that only copy: name, and which of the two."""
    off_us: dict[Mode, float] = field(default_factory=dict)
    """Time of a call with all own kernels off, by the judge's clock."""
    left_running: tuple[int, int] = (0, 0)
    """Most threads and processes that one call has left behind."""
    flooded: bool = False
    """More evidence came than is kept."""
    stop: Stop | None = None
    measured: Measured = field(default_factory=Measured)

    @property
    def own_kernels(self) -> set[str]:
        """Names of the candidate's own kernels that were launched."""
        return {name for evidence in self.evidence.values() for name in evidence.digests.values()}

    def count(self, threads: tuple[int, int], children: tuple[int, int]) -> None:
        """Take in what a call said about the threads and processes of its process."""
        more = (threads[1] - threads[0], children[1] - children[0])
        self.left_running = (
            max(self.left_running[0], more[0]),
            max(self.left_running[1], more[1]),
        )
