"""Does a kernel that was accepted hold on the task's other configurations?

A synthetic task comes with several ways to feed it: odd sizes, strides, extreme values. A kernel
that is right on one and wrong on another was fitted to what it was judged on. Over many kernels:
the share that stays correct, and whether those that are fast on one configuration are fast on
another (rank correlation of speedups, ties averaged).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from kernelgym.schema import EvalResult, Submission
from kernelgym.tasks.synth.record import Scale, SynthTask
from kernelgym.toolkits.simple import Evaluator


class Transfer(BaseModel):
    """What became of kernels on one configuration other than the one they were accepted on."""

    model_config = ConfigDict(frozen=True)

    configuration: str
    kernels: int
    """Kernels that were accepted on ``base`` and judged here (infrastructure faults left out)."""
    correct: int
    rank_correlation: float | None = None
    """Of the speedups here and on ``base``; None below three kernels with both."""

    @property
    def share_correct(self) -> float | None:
        """Share of kernels that stay correct."""
        return self.correct / self.kernels if self.kernels else None


async def evaluate_configurations(
    host: Evaluator, task: SynthTask, submission: Submission, *, scale: Scale = "full"
) -> dict[str, EvalResult]:
    """Judge one candidate on every configuration of its task, by name."""
    found = {}
    for entry in task.configurations:
        asked = submission.model_copy(update={"task": task.task(entry.name, scale)})
        found[entry.name] = await host.evaluate(asked)
    return found


def transfer(results: Sequence[Mapping[str, EvalResult]], base: str = "base") -> list[Transfer]:
    """Summary over kernels; those that are not correct on ``base`` do not count."""
    accepted = [found for found in results if base in found and found[base].correct]
    names = dict.fromkeys(name for found in accepted for name in found if name != base)
    return [_transfer(accepted, base, name) for name in names]


def _transfer(accepted: Sequence[Mapping[str, EvalResult]], base: str, name: str) -> Transfer:
    pairs = [(found[base], found[name]) for found in accepted if name in found]
    pairs = [(first, second) for first, second in pairs if second.outcome != "infrastructure"]
    speeds = [
        (first.speedup, second.speedup)
        for first, second in pairs
        if first.speedup is not None and second.speedup is not None
    ]
    return Transfer(
        configuration=name,
        kernels=len(pairs),
        correct=sum(second.correct for _, second in pairs),
        rank_correlation=rank_correlation(speeds),
    )


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's; None below three pairs, or where one side is all alike."""
    if len(pairs) < 3:
        return None
    left, right = _ranks([a for a, _ in pairs]), _ranks([b for _, b in pairs])
    middle = (len(pairs) + 1) / 2
    together = sum((a - middle) * (b - middle) for a, b in zip(left, right, strict=True))
    spread = sum((a - middle) ** 2 for a in left) * sum((b - middle) ** 2 for b in right)
    return float(together / spread**0.5) if spread > 0 else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Rank of each value from 1; those that are equal share their mean rank."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]
