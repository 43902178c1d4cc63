"""What each turn of a step was worth, beside its episodes: ``credit/step-000001.jsonl``.

Episodes are written when they are played; what they were worth is known later, and stands here:
one line a turn that could be trained on. Imports no torch.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from drkernel.rollout.directory import write_whole
from drkernel.train.credit import Credit
from drkernel.train.trajectories import Rollouts


@dataclass(frozen=True)
class TurnCredit:
    """One turn."""

    episode: str
    turn: int
    """0-based."""
    group_return: float
    """Reward to go, discounted."""
    advantage: float
    """0 where dropped."""
    kept: bool
    """It survived every filter."""
    dropped_by: tuple[str, ...]
    """Filters that would drop it, each by itself."""
    w: float | None
    """Geometric mean of trainer over sampler probabilities."""

    def text(self) -> str:
        """For people."""
        fate = "kept" if self.kept else f"dropped by {', '.join(self.dropped_by) or 'no filter'}"
        parts = [f"return {self.group_return:.3f}", f"advantage {self.advantage:+.3f}", fate]
        return "  ".join([*parts, *([] if self.w is None else [f"w {self.w:.5f}"])])


def credit_file(run: Path, step: int) -> Path:
    """Where the credit of a step is kept."""
    return run / "credit" / f"step-{step:06d}.jsonl"


def write_credit(path: Path, worth: Credit, rollouts: Rollouts) -> None:
    """One line a row; the file is there as a whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, row in enumerate(rollouts.rows):
        place = (row.episode, row.turn)
        w = float(worth.w[number])
        found = TurnCredit(
            episode=rollouts.episodes[row.episode].id,
            turn=row.turn,
            group_return=float(worth.table.returns[place]),
            advantage=float(worth.advantages[number]),
            kept=bool(worth.keep[number]),
            dropped_by=worth.filters.reasons_of(*place),
            w=w if math.isfinite(w) else None,
        )
        lines.append(json.dumps(asdict(found)) + "\n")
    write_whole(path, "".join(lines))


def read_credit(path: Path) -> dict[tuple[str, int], TurnCredit]:
    """By episode and turn; empty where there is no such file."""
    if not path.exists():
        return {}
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    found = [TurnCredit(**{**one, "dropped_by": tuple(one["dropped_by"])}) for one in records]
    return {(one.episode, one.turn): one for one in found}
