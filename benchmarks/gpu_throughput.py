"""Evaluations a second on one GPU, with everything on and every candidate compiled afresh.

    python benchmarks/gpu_throughput.py --out DIR [--workers 8] [--budget-s 540] [--only ...]
        [--seen DIR,...] [--root KERNELBENCH] [--huge] [--dry-run] [--summary]

Sections: ``idle`` (one evaluation at a time: latency, and A-A error to compare with),
``small_shared`` and ``mix_shared`` (16 rollouts a task in turn, which share its judge),
``small_single`` and ``mix_single`` (a new judge for each evaluation). ``mix`` is every candidate of
`gpu_throughput_tasks`, KernelBench problems at full size and small ones. Two of 18 turns are the
reference as its own candidate. Rows: ``DIR/SECTION.jsonl``; result: ``DIR/gpu_throughput.json``.
A repeated call adds a segment to a section; rates are over all segments.

Not covered: the service in front of the host, and several GPUs.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # where it is not installed

import gpu_throughput_summary
from gpu_throughput_children import Runner
from gpu_throughput_lanes import Job, Rows, host_for, run_jobs
from gpu_throughput_tasks import FULL, HUGE, SMALL, Entry, itself, submission, tags, task_of

LIMITS_S = {
    "idle": 90.0,
    "small_shared": 75.0,
    "small_single": 50.0,
    "mix_shared": 210.0,
    "mix_single": 110.0,
}
ROLLOUTS = 16
EVALUATION_LIMIT_S = 60.0


class Plan:
    """Jobs of a section."""

    def __init__(self, arguments: argparse.Namespace, section: str, segment: int) -> None:
        self._root, self._dry = arguments.root, arguments.dry_run
        self._tags = tags(section)
        self._facts = {"section": section, "segment": segment}
        full = FULL + (HUGE if arguments.huge else ())
        if self._dry:
            picked = ("conv_relu_hard_swish", "new_gelu")
            full = tuple(entry for entry in FULL if entry.candidate in picked)
        self._small = SMALL[:2] if self._dry else SMALL
        self._mix = _interleaved(full, self._small)
        self.rollouts = 2 if self._dry else ROLLOUTS

    def jobs(self, section: str) -> Iterator[Job]:
        if section == "idle":
            return self._idle()
        entries = self._small if section.startswith("small") else self._mix
        if section.endswith("shared"):
            rounds = 2 if section.startswith("small") and not self._dry else 1
            return (self._shared(entry) for _ in range(rounds) for entry in entries)
        rounds = 1 if self._dry else (10 if section.startswith("small") else 3)
        return (self._single(entry, i) for i in range(rounds) for entry in entries)

    def _idle(self) -> Iterator[Job]:
        kept, fresh = (2, 1) if self._dry else (5, 2)
        for entry in self._small[: 1 if self._dry else 6]:
            job = Job(entry.problem, entry.gib)
            kinds = [False] * (kept + 1) + [True] * (1 if self._dry else 2)
            for number, is_reference in enumerate(kinds):
                job.turns.append(self._turn(entry, is_reference=is_reference, turn=number))
            yield job
            for number in range(fresh):
                yield self._single(entry, number)

    def _shared(self, entry: Entry) -> Job:
        job = Job(entry.problem, entry.gib)
        for turn in range(self.rollouts):
            job.turns.append(self._turn(entry, is_reference=False, turn=turn))
            if turn % 8 == 7 or self._dry:
                job.turns.append(self._turn(entry, is_reference=True, turn=turn))
        return job

    def _single(self, entry: Entry, number: int) -> Job:
        is_reference = number % 3 == 2
        turn = self._turn(entry, is_reference=is_reference, turn=0)
        return Job(entry.problem, entry.gib, [turn], fresh=True)

    def _turn(self, entry: Entry, *, is_reference: bool, turn: int) -> tuple:
        tag, task = next(self._tags), task_of(entry.problem, self._root, dry_run=self._dry)
        facts = self._facts | {
            "candidate": "reference" if is_reference else entry.candidate,
            "problem": entry.problem, "kind": entry.kind, "turn": turn,
        }  # fmt: skip
        if is_reference:
            return facts, itself(task, tag, EVALUATION_LIMIT_S)
        return facts, submission(entry, task, tag, EVALUATION_LIMIT_S)


def _interleaved(full: tuple[Entry, ...], small: tuple[Entry, ...]) -> list[Entry]:
    """Two large ones, one small one, so that neither kind is left over at the end."""
    rest, mixed = list(small), []
    for index, entry in enumerate(full):
        mixed.append(entry)
        if index % 2 and rest:
            mixed.append(rest.pop(0))
    return mixed + rest


async def run_section(section: str, arguments: argparse.Namespace, ends: float) -> None:
    rows = Rows(Path(arguments.out) / f"{section}.jsonl")
    segment = 1 + max((row["segment"] for row in rows.rows), default=-1)
    plan = Plan(arguments, section, segment)
    lanes = 1 if section == "idle" else (2 if arguments.dry_run else arguments.workers)
    device = "cpu" if arguments.dry_run else "cuda:0"
    async with host_for(device, lanes) as host:
        await run_jobs(
            host, plan.jobs(section), rows, lanes=lanes, ends=ends, limit_s=EVALUATION_LIMIT_S
        )


def _extra(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--huge", action="store_true", help="the three heaviest, too")


if __name__ == "__main__":
    runner = Runner("gpu_throughput", __file__, LIMITS_S, gpu_throughput_summary.summarise, _extra)
    sys.exit(runner.main(run_section))
