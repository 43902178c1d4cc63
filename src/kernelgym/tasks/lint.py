"""The task lint: can this task tell a solution from nonsense?

A reference is run on two sets of inputs, then solvers that compute nothing (`lint_solvers`) are
compared with it under the judge's own tolerances. A task that accepts one is quarantined, with the
reason; so is one whose output drowns in its own rounding noise, or that cannot be judged at all.

The reference's code runs in this process. For tasks from elsewhere use `kernelgym.tasks.lint_jail`.

Not covered: sizes that were not run. A mean over a million elements may be as good as constant
where the same mean over a hundred is not, so lint at the sizes that will be judged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from kernelgym.errors import TaskError
from kernelgym.judge import compare, protocols
from kernelgym.judge.protocols import Allowance
from kernelgym.schema import Mode, Protocol, Task
from kernelgym.tasks.lint_report import LintFinding, LintReport
from kernelgym.tasks.lint_runs import Answers, Runner
from kernelgym.tasks.lint_solvers import SOLVERS, Answer

LOOKS_S = 120.0
"""Seconds after which single parameters are no longer tried out."""


def lint_task(
    task: Task,
    *,
    protocol: Protocol = "standard",
    whole: bool = True,
    seed: int = 0,
    limit_s: float = 60.0,
    device: str = "cpu",
) -> LintReport:
    """Lint one task. Without ``whole`` the looks at single inputs and parameters are left out."""
    started = time.monotonic()
    try:
        runner = Runner(task, seed=seed, limit_s=limit_s, device=device)
        return lint_runner(runner, task.name, protocol=protocol, whole=whole, started=started)
    except TaskError as error:
        finding = LintFinding(id=error.code, severity="fault", message=str(error)[:1000])
        return LintReport(
            task=task.name,
            protocol=protocol,
            findings=(finding,),
            seconds=time.monotonic() - started,
        )


def lint_runner(
    runner: Runner, name: str, *, protocol: Protocol, whole: bool, started: float
) -> LintReport:
    """Lint a reference that is already loaded."""
    modes: list[Mode] = list(runner.modes()) if whole else ["eval"]
    if protocol == "kernelbench":
        modes = modes[-1:]
    looks = [_Look(runner.answers(mode, whole=whole), protocol) for mode in modes]
    found = [finding for look in looks[:1] for finding in look.faults()]
    margin = None
    if not found:
        accepted, margin = _accepted(looks, whole=whole)
        found += accepted
        if whole and not any(f.id == "accepts_first_answer" for f in accepted):
            found += _ignored(runner, looks, started + LOOKS_S)
    found.sort(key=lambda finding: finding.severity != "fault")
    weakest = min(looks[0].scales(), default=(None, None), key=lambda pair: pair[0])
    return LintReport(
        task=name,
        protocol=protocol,
        findings=tuple(found),
        rms=weakest[0],
        noise=weakest[1],
        margin=margin,
        seconds=time.monotonic() - started,
    )


def _accepted(looks: Sequence[_Look], *, whole: bool) -> tuple[list[LintFinding], float | None]:
    """Solvers that every mode accepts, and how far the best of the others was from it."""
    found: list[LintFinding] = []
    margin: float | None = None
    for solver in SOLVERS:
        if solver.whole and not whole:
            continue
        best: float | None = 0.0
        for look in looks:
            ratios = [look.distance(answer) for answer in solver.answers(look.known)]
            best = None if best is None or not ratios else max(best, min(ratios))
        if best is None:
            continue
        if best <= 1.0:
            found.append(LintFinding(id=solver.id, severity="fault", message=solver.reason))
        else:
            margin = best if margin is None else min(margin, best)
    return found, margin


def _ignored(runner: Runner, looks: Sequence[_Look], until: float) -> Iterator[LintFinding]:
    """Single inputs and parameters that make no difference, and parameters that never vary.

    A large model has hundreds of parameters: after the time ``until`` no more are tried.
    """
    mode: Mode = looks[0].known.mode

    def idle(answers: Answer) -> bool:
        return looks[0].distance(answers) <= 1.0

    count = len(looks[0].known.inputs)
    for index in range(count if count > 1 else 0):
        if idle(runner.with_first_input(mode, index).tensors):
            text = f"input {index} can be ignored: other values leave the answer as it is"
            yield LintFinding(id="input_ignored", severity="warning", message=text)
    fixed = sorted(runner.fixed_parameters())
    for name in runner.parameters():
        if time.monotonic() > until:
            break
        if idle(runner.with_other_parameter(mode, name).tensors):
            text = f"{name} can be ignored: other values leave the answer as it is"
            yield LintFinding(id="parameter_ignored", severity="warning", message=text)
    if fixed:
        text = f"the same whatever the seed, so a candidate can leave them out: {', '.join(fixed)}"
        yield LintFinding(id="constant_parameters", severity="warning", message=text[:500])


@dataclass
class _Look:
    """Answers in one mode with what they may differ by."""

    known: Answers
    protocol: Protocol

    def __post_init__(self) -> None:
        self.allowances = [
            self._allowance(tensor, noise)
            for tensor, noise in zip(self.known.second.tensors, self.known.noise, strict=True)
        ]

    def _allowance(self, tensor: torch.Tensor, noise: float) -> Allowance | None:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return None
        if self.protocol == "kernelbench":
            return protocols.kernelbench()
        scale = compare.rms(tensor)
        if self.protocol == "strict":
            return protocols.strict(tensor.dtype, scale, noise)
        return protocols.standard(tensor.dtype, scale, noise)

    def scales(self) -> list[tuple[float, float]]:
        """Root mean square and noise of every floating-point output."""
        pairs = zip(self.known.second.tensors, self.known.noise, strict=True)
        return [(compare.rms(t), n) for t, n in pairs if t.is_floating_point() or t.is_complex()]

    def faults(self) -> Iterator[LintFinding]:
        """Outputs that no comparison can use."""
        outputs = [*self.known.first.tensors, *self.known.second.tensors]
        if not any(tensor.numel() for tensor in outputs):
            yield LintFinding(
                id="empty_output", severity="fault", message="no output has any element"
            )
        if not all(bool(torch.isfinite(tensor).all()) for tensor in outputs):
            yield LintFinding(
                id="nonfinite_output", severity="fault", message="an output holds NaN or Inf"
            )
        for index, (scale, noise) in enumerate(self.scales()):
            if 0 < scale <= protocols.NOISE_FACTOR * noise:
                text = (
                    f"output {index} has rms {scale:.3g}, which its own rounding noise"
                    f" ({noise:.3g}) hides"
                )
                yield LintFinding(id="below_noise", severity="fault", message=text)

    def distance(self, answer: Answer) -> float:
        """Largest |error| / allowance; above 1 the answer is refused."""
        worst = 0.0
        for actual, target, allowance in zip(
            answer, self.known.second.tensors, self.allowances, strict=True
        ):
            if actual.shape != target.shape or actual.dtype != target.dtype:
                return math.inf
            if allowance is None:
                worst = max(worst, 0.0 if torch.equal(actual, target) else math.inf)
            else:
                worst = max(worst, _worst_ratio(actual, target, allowance))
        return worst


def _worst_ratio(actual: torch.Tensor, target: torch.Tensor, allowance: Allowance) -> float:
    """What `compare.difference` calls the worst ratio, for a target that is finite.

    The lint makes twenty comparisons a task and needs one number of each; the quantiles and the
    place of the worst element would take most of its time.
    """
    if target.numel() == 0:
        return 0.0
    target = target.to(torch.complex128 if target.is_complex() else torch.float64)
    allowed = allowance.slope * target.abs() + allowance.floor
    error = (actual.to(target.dtype) - target).abs()
    ratio = float(torch.where(error == 0, 0.0, error / allowed).max())
    return math.inf if math.isnan(ratio) else ratio
