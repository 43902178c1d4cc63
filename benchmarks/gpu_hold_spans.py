"""Judge and candidate of `gpu_hold.py --spans`, with a clock around their parts.

Roles of a zygote. Each process writes, after every request, how often each part ran and how long
it took, children included, into the directory that ``spans-where`` in the temporary directory
names. It works without a jail only.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WHERE = Path(os.sep, "tmp", f"kernelgym-spans-{os.getuid()}")
_spent: dict[str, list[float]] = {}


def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a clock around it."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            taken = _spent.setdefault(name, [0, 0.0, 0.0])
            spent = time.perf_counter() - started
            taken[0] += 1
            taken[1] += spent
            taken[2] = max(taken[2], spent)

    return wrapper


def watch(owner: Any, *names: str) -> None:
    """Clock methods or functions of ``owner``."""
    for name in names:
        label = f"{getattr(owner, '__name__', owner).rpartition('.')[2]}.{name}"
        setattr(owner, name, timed(label, getattr(owner, name)))


def write(role: str) -> None:
    """Replace what this process has written before."""
    path = Path(WHERE.read_text()) / f"{role}-{os.getpid()}.json"
    path.write_text(json.dumps(_spent))


def judge(link_fd: int, gate_fd: int | None = None) -> None:
    """A judge; what it writes is of its last evaluation."""
    from kernelgym.cuda.snapshot import Snapshot
    from kernelgym.judge import blocks, brackets, inputs, measure, process, quick, volley
    from kernelgym.judge.answers import Examiner
    from kernelgym.judge.correctness import Correctness
    from kernelgym.judge.deck import Deck
    from kernelgym.judge.measure import GpuMeasurement
    from kernelgym.judge.peer import Peer
    from kernelgym.judge.probes.ablation import Ablation
    from kernelgym.judge.probes.replay import FewElements, SameElsewhere
    from kernelgym.judge.reference import Reference
    from kernelgym.judge.remembering import Remembered
    from kernelgym.judge.stock import Stock
    from kernelgym.sandbox.evidence import EvidenceReader
    from kernelgym.sandbox.frames import Channel

    clock = volley.CandidateClock
    watch(clock, "volley", "_rounds", "_fire", "_is_armed", "_watch", "_deliver", "_account")
    watch(clock, "_compare", "catch_up")
    watch(Correctness, "run", "trial", "ask", "_expect", "_call", "_examine", "spare_model")
    watch(Examiner, "examine")
    watch(Remembered, "changed", "keep")
    watch(Reference, "make_inputs", "call")
    watch(Stock, "take", "_make")
    watch(Deck, "canary_us", "flush_and_raise", "wait_until_quiet", "settle", "new_page")
    watch(Snapshot, "take")
    watch(Peer, "send", "answer")
    watch(GpuMeasurement, "before", "prepare", "run", "after")
    watch(Ablation, "ask_last", "_ordinary", "_all_off", "_copies", "_one_by_one")
    watch(FewElements, "ask")
    watch(SameElsewhere, "ask")
    watch(blocks.ReferenceTimer, "block", "_shoot", "_profile", "__init__")
    watch(blocks, "time_candidate")
    watch(inputs, "poison")
    watch(quick.Comparison, "add", "decide")
    watch(Channel, "receive")
    watch(EvidenceReader, "drain", "take")
    watch(brackets, "watch")
    original = process.Judge._evaluate
    measure.time_candidate = _with_leads(blocks.time_candidate)

    def evaluate(self: process.Judge, request: dict[str, Any]) -> dict[str, Any]:
        _spent.clear()
        answer = timed("evaluate", original)(self, request)
        write("judge")
        return answer  # type: ignore[no-any-return]

    process.Judge._evaluate = evaluate  # type: ignore[method-assign]
    process.main(link_fd, gate_fd)


def _with_leads(time_candidate: Callable[..., Any]) -> Callable[..., Any]:
    """Writes down what leads and bodies of a candidate's brackets were."""

    def wrapper(deck: Any, *arguments: Any) -> Any:
        block = time_candidate(deck, *arguments)
        leads = [round(b.lead_us, 1) for b in block.brackets]
        bodies = [round(b.body_us, 1) for b in block.brackets]
        text = f"{deck.trusted} {block.lead_us=:.1f} {block.empty_us=:.1f} {leads=} {bodies=}"
        with (Path(WHERE.read_text()) / f"leads-{os.getpid()}.txt").open("a") as file:
            file.write(text + "\n")
        return block

    return wrapper


def candidate(channel_fd: int, evidence_fd: int) -> None:
    """A candidate."""
    from kernelgym.cuda import armed
    from kernelgym.sandbox import aliasing, building, calling, candidate, counting, filling
    from kernelgym.sandbox import timing as timing_module
    from kernelgym.sandbox.frames import Channel
    from kernelgym.trace.recorder import Recorder

    harness = candidate.Candidate
    watch(aliasing, "ranges", "aliases")
    watch(calling, "arguments", "input_ranges", "copy_out")
    watch(calling.Returned, "__init__", "answer")
    watch(counting, "count")
    watch(filling, "fill_free_blocks")
    watch(candidate, "seed_everything", "_synchronize", "Census")
    watch(armed, "queue")
    watch(Channel, "receive", "send")
    watch(building, "named_state")
    watch(Recorder, *(n for n, f in vars(Recorder).items() if n[0] != "_" and callable(f)))
    watch(armed.Events, "microseconds")
    watch(timing_module, "_stop", "_Bracket")
    watch(timing_module.Timing, "run")
    for name in ("setup", "load", "build", "clock", "prepare", "call", "time", "report"):
        original = timed(f"Candidate.{name}", getattr(harness, name))

        def method(self: Any, request: Any, original: Callable[..., Any] = original) -> Any:
            answer = original(self, request)
            write("candidate")
            return answer

        setattr(harness, name, method)
    candidate.main(channel_fd, evidence_fd)


def tell(directory: str) -> None:
    """Print what the last process of each role has written."""
    for path in Path(directory).glob("leads-*.txt"):
        sys.stdout.write(path.read_text())
    for role in ("judge", "candidate"):
        files = sorted(Path(directory).glob(f"{role}-*.json"), key=lambda p: p.stat().st_mtime)
        if not files:
            continue
        sys.stdout.write(f"{role}: times, seconds in all, worst ms\n")
        spent = json.loads(files[-1].read_text())
        for name, (count, total, worst) in sorted(spent.items(), key=lambda kv: -kv[1][1]):
            sys.stdout.write(f"  {name:<34} {count:5.0f} {total:8.4f} {worst * 1e3:8.2f}\n")
