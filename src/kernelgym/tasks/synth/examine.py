"""Runs a draft: every configuration at lint sizes under the task lint, and its graph at full size.

The other configurations are not run at full size: their shapes follow the same rules, and running
them on the meta device would double the cost of a task (a test does it for a sample).

Runs in a child process (`generate` starts several). The code that runs is ours, written by
`render`, except in `graph_of`, which runs whatever task it is given.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch

from kernelgym.errors import TaskError
from kernelgym.judge.reference import Reference
from kernelgym.schema import Task
from kernelgym.tasks.lint import lint_task
from kernelgym.tasks.lint_report import LintReport
from kernelgym.tasks.synth.compose import Draft
from kernelgym.tasks.synth.graph import trace_graph
from kernelgym.tasks.synth.record import SynthTask

DISQUALIFYING = frozenset({"input_ignored", "parameter_ignored", "constant_parameters"})
"""Warnings of the lint that a synthetic task must not have."""
REQUIRED = ("base", "tail")
"""Configurations that must pass; the others are left out of the task when they do not."""
SMALLEST_MARGIN = 1.5
"""A solver that comes this close to being accepted could be, on another machine's arithmetic."""


@dataclass
class Examined:
    """What became of a draft."""

    record: SynthTask
    reasons: list[str] = field(default_factory=list)
    """Why it is refused; empty when it is not."""
    left_out: list[str] = field(default_factory=list)
    """``CONFIGURATION:REASON`` of optional configurations that did not pass."""


def prepare_process() -> None:
    """Once in each child: one thread, a place for files that goes away with it, the meta device."""
    torch.set_num_threads(1)
    os.environ["HF_HUB_OFFLINE"] = "1"  # else a module that wants weights is retried for minutes
    warnings.filterwarnings("ignore", message=".* is in beta")
    memory = Path("/dev/shm")  # each task writes and removes a few small files
    place = memory if os.access(memory, os.W_OK) else None
    _SCRATCH.append(tempfile.TemporaryDirectory(prefix="kernelgym-synth-", dir=place))
    tempfile.tempdir = _SCRATCH[0].name
    _start_meta_device()


_SCRATCH: list[tempfile.TemporaryDirectory[str]] = []


def examine_all(drafts: list[Draft]) -> list[Examined]:
    """Examine a few drafts in one go."""
    return [examine(draft) for draft in drafts]


def examine(draft: Draft) -> Examined:
    """Lint every configuration and trace the graph."""
    record = draft.record
    passed = []
    found = Examined(record)
    for entry in record.configurations:
        report = lint_task(record.task(entry.name, "lint"), whole=entry.name == "base")
        reasons = _reasons(report)
        if not reasons:
            passed.append(entry)
        elif entry.name in REQUIRED:
            found.reasons = reasons
            return found
        else:
            found.left_out += [f"{entry.name}:{reason}" for reason in reasons]
    try:
        graph, _ = graph_of(record.task("base", "full"))
    except TaskError as error:
        found.reasons = [f"full size: {error.code}"]
        return found
    found.record = record.model_copy(update={"graph": graph, "configurations": tuple(passed)})
    return found


def _reasons(report: LintReport) -> list[str]:
    reasons = [f.id for f in report.findings if f.severity == "fault" or f.id in DISQUALIFYING]
    if not reasons and report.margin is not None and report.margin < SMALLEST_MARGIN:
        reasons = ["narrow_margin"]
    return list(dict.fromkeys(reasons))


@cache
def _start_meta_device() -> None:
    """Its first use imports half a library: not under a limit that would leave it half done."""
    trace_graph(torch.nn.Linear(2, 2, device="meta"), [torch.empty(2, 2, device="meta")])
    torch.clamp(torch.randn(2, device="meta"), max=1.0)


def graph_of(task: Task, limit_s: float = 120.0) -> tuple[str, tuple[str, ...]]:
    """Operator graph and operators of a task, on the meta device; raises `TaskError`."""
    _start_meta_device()
    reference = Reference(
        task.reference,
        task.entry_point,
        dtype=torch.float32,
        device="meta",
        limit_s=120.0,
    )
    model = reference.instantiate(reference.make_init_arguments(0), 0)
    model.eval()
    values = reference.make_inputs(0).values()
    try:
        with torch.device("meta"):
            return trace_graph(model, values, limit_s)
    except Exception as error:
        text = f"the reference cannot run on the meta device: {type(error).__name__}: {error}"
        raise TaskError("reference_no_graph", text[:500]) from error
