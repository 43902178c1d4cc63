"""Which tasks to train on, decided while training goes on.

After each group of rollouts the task's record is brought up to date, and a weight says how much is
left to learn from it:

* a pass rate near one half teaches most, one near 0 or 1 little (``4 p (1 - p)``, with a prior so
  that an unseen task counts as one half);
* each group in a row whose rewards are all alike halves the weight: it gave no advantage;
* where the operator to be replaced takes a small share of the run time, no kernel can be fast.

A floor keeps every task in play, so that one that was too hard is met again. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kernelgym.tasks.curation import TaskFacts


@dataclass(frozen=True)
class Weighting:
    """How records become weights."""

    prior_attempts: float = 4.0
    """Weight of the belief that an unseen task is solved half of the time."""
    fade: float = 0.9
    """What older rollouts count, after each group."""
    flat_below: float = 1e-3
    """Rewards of a group whose spread (largest less smallest) is below this are alike."""
    flat_halvings: int = 4
    """No more than so many flat groups in a row are counted."""
    least_share: float = 0.3
    """Share of run time below which the weight falls in proportion."""
    floor: float = 0.02
    """Smallest weight."""


class RunningCuration:
    """Records by task, kept up to date."""

    def __init__(self, facts: Iterable[TaskFacts], weighting: Weighting | None = None) -> None:
        self.facts = {fact.task: fact for fact in facts}
        self.weighting = weighting or Weighting()

    def record(
        self,
        task: str,
        rewards: Sequence[float],
        correct: Sequence[bool],
        *,
        target_share: float | None = None,
    ) -> TaskFacts:
        """One finished group; rollouts that ended in ``infrastructure`` are left out by the caller.

        A group without any rollout changes nothing.
        """
        if len(rewards) != len(correct):
            raise ValueError(f"{len(rewards)} rewards but {len(correct)} verdicts")
        fact, rule = self.facts[task], self.weighting
        if rewards:
            flat = max(rewards) - min(rewards) < rule.flat_below
            fact = replace(
                fact,
                attempts=fact.attempts * rule.fade + len(correct),
                solved=fact.solved * rule.fade + sum(correct),
                groups=fact.groups + 1,
                flat_groups=fact.flat_groups + 1 if flat else 0,
            )
        if target_share is not None:
            fact = replace(fact, target_share=target_share)
        self.facts[task] = fact
        return fact

    def weight(self, task: str) -> float:
        """How much is left to learn, from `Weighting.floor` to 1."""
        fact, rule = self.facts[task], self.weighting
        rate = (fact.solved + rule.prior_attempts / 2) / (fact.attempts + rule.prior_attempts)
        weight = 4.0 * rate * (1.0 - rate)
        weight *= 0.5 ** min(fact.flat_groups, rule.flat_halvings)
        if fact.target_share is not None and rule.least_share > 0:
            weight *= min(1.0, max(0.0, fact.target_share) / rule.least_share)
        return max(rule.floor, weight)

    def weights(self) -> dict[str, float]:
        """Weights of all tasks."""
        return {task: self.weight(task) for task in self.facts}

    def zero_variance_share(self) -> float:
        """Share of tasks whose last group taught nothing, of those that were tried."""
        tried = [fact for fact in self.facts.values() if fact.groups]
        return sum(1 for fact in tried if fact.flat_groups) / len(tried) if tried else 0.0
