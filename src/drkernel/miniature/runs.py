"""Runs of an experiment: what was trained, and what was measured of it.

An arm is named after what its configuration switches on (`arm_of`), a run's place in it is its
seed. An evaluation belongs to the training run whose checkpoint its policy is, or to the cold start
that the training runs began from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from drkernel.algo import REWARD_RULES
from drkernel.config import load
from drkernel.evaluate.stored import StoredEvaluation, kind_of, read_evaluation
from drkernel.tracking import read_metrics
from drkernel.train.settings import TrainSettings
from kernelgym.errors import UsageError

COLD_START = "cold start"
FULL = "TRLOO + MRS + PR + PRS"
ARMS = (
    COLD_START, "GRPO", "TRLOO, no hack check", "TRLOO", "TRLOO + MRS", "TRLOO + MRS + PR", FULL
)  # fmt: skip
"""The arms of the paper, in the order of its figures. Others come after them."""
_SCORE = "validation/score"
_FOLDER = "checkpoints"


def arm_of(settings: TrainSettings) -> str:
    """Name of the arm that a configuration belongs to.

    >>> arm_of(TrainSettings())
    'TRLOO + MRS + PR + PRS'
    """
    rule, pay = settings.algorithm, REWARD_RULES[settings.episode.reward.rule]
    parts = [rule.estimator.upper().replace("_", " ")]
    parts += ["MRS"] if rule.mrs else []
    if pay.form == "sum" and pay.credit != "none" and pay.weights[2]:
        parts.append("PR" if pay.credit == "coverage" else f"PR ({pay.credit})")
    parts += ["PRS"] if rule.prs else []
    return " + ".join(parts) + ("" if rule.hack_check else ", no hack check")


@dataclass(frozen=True)
class Trained:
    """One run of ``drkernel train``."""

    path: Path
    settings: TrainSettings
    lines: tuple[dict[str, Any], ...]
    """One a step, step 0 where it was validated before training."""
    device: str = ""
    """What its candidates ran on."""

    @property
    def arm(self) -> str:
        """Name of its arm."""
        return arm_of(self.settings)

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.settings.seed

    @property
    def steps(self) -> int:
        """Steps that are done."""
        return max((int(line["step"]) for line in self.lines), default=0)

    @property
    def scores(self) -> dict[int, float]:
        """Validation score of every checkpoint that was validated."""
        found = {line["step"]: line.get(_SCORE) for line in self.lines}
        return {step: score for step, score in found.items() if score is not None}

    @property
    def best(self) -> int | None:
        """Step of the best validation, the earliest of equals."""
        return max(self.scores, key=lambda step: (self.scores[step], -step), default=None)

    def total(self, metric: str) -> float:
        """Sum of a metric over all steps, validations included."""
        names = (metric, f"validation/{metric}")
        return float(sum(line.get(name) or 0.0 for line in self.lines for name in names))


@dataclass(frozen=True)
class Measured:
    """An evaluation or a scaling run of one policy."""

    arm: str
    run: Trained | None
    """None for the cold start."""
    step: int | None
    """Of the checkpoint; None for the cold start."""
    path: Path
    evaluation: StoredEvaluation | None = None
    """None for a scaling run."""


@dataclass
class Experiment:
    """Everything that was named."""

    trained: list[Trained] = field(default_factory=list)
    evaluations: list[Measured] = field(default_factory=list)
    scalings: list[Measured] = field(default_factory=list)

    @property
    def arms(self) -> list[str]:
        """Arms that were trained, in the paper's order."""
        found = {run.arm for run in self.trained}
        return [arm for arm in ARMS if arm in found] + sorted(found - set(ARMS))

    def of(self, arm: str) -> list[Trained]:
        """Training runs of an arm, by seed."""
        return sorted((run for run in self.trained if run.arm == arm), key=lambda run: run.seed)

    def measured(self, arm: str) -> list[StoredEvaluation]:
        """Held-out evaluations of an arm, by seed."""
        found = [one for one in self.evaluations if one.arm == arm]
        found.sort(key=lambda one: -1 if one.run is None else one.run.seed)
        return [one.evaluation for one in found if one.evaluation is not None]


def read_experiment(paths: Sequence[Path]) -> Experiment:
    """Read run directories of ``drkernel train``, ``eval`` and ``scale``.

    Raises:
        UsageError: a directory is another kind of run, two runs are the same arm and seed, or the
            policy of an evaluation is nothing that was trained here.
    """
    kinds = {path: kind_of(path)[0] for path in paths}
    found = Experiment()
    for path in [path for path, kind in kinds.items() if kind == "train"]:
        found.trained.append(_read_trained(path))
    _check_unique(found.trained)
    for path, kind in kinds.items():
        if kind == "eval":
            stored = read_evaluation(path)
            found.evaluations.append(_measured(found, path, stored.policy, stored))
        elif kind == "scale":
            found.scalings.append(_measured(found, path, _policy_of(path), None))
        elif kind != "train":
            raise UsageError(
                f"{path} is a run of drkernel {kind}",
                hint="runs of drkernel train, and of eval and scale with their checkpoints",
            )
    return found


def _read_trained(path: Path) -> Trained:
    metrics = path / "metrics.jsonl"
    if not metrics.exists():
        raise UsageError(f"{path} has no metrics yet", hint="drkernel train goes on with it")
    settings = load(TrainSettings, [path / "config.json"])
    return Trained(path, settings, tuple(read_metrics(metrics)), _device_of(path))


def _device_of(path: Path) -> str:
    """What the first candidate that was judged ran on."""
    for log in sorted((path / "episodes").glob("step-*.jsonl")):
        with log.open(encoding="utf-8") as file:
            for line in file:
                result = json.loads(line).get("turn", {}).get("result")
                if result is not None:
                    return str(result["provenance"]["device"])
    return ""


def _check_unique(runs: Sequence[Trained]) -> None:
    seen: dict[tuple[str, int], Path] = {}
    for run in runs:
        other = seen.setdefault((run.arm, run.seed), run.path)
        if other != run.path:
            raise UsageError(
                f"{other} and {run.path} are both {run.arm} with seed {run.seed}",
                hint="one of them, or another --seed",
            )


def _policy_of(path: Path) -> str:
    from drkernel.scale.settings import ScaleSettings

    return load(ScaleSettings, [path / "config.json"]).policy.name


def _measured(
    experiment: Experiment, path: Path, policy: str, evaluation: StoredEvaluation | None
) -> Measured:
    """Whose checkpoint a policy is: by the name of the run's folder, wherever that was."""
    parts = PurePath(policy.partition(":")[2]).parts
    for run in experiment.trained:
        for place in range(1, len(parts) - 1):
            if parts[place] == _FOLDER and parts[place - 1] == run.path.resolve().name:
                step = int(parts[place + 1].rpartition("-")[2])
                return Measured(run.arm, run, step, path, evaluation)
    starts = {PurePath(run.settings.model.path) for run in experiment.trained}
    if parts and PurePath(*parts) in starts:
        return Measured(COLD_START, None, None, path, evaluation)
    raise UsageError(
        f"{path} measured {policy}, which is neither a checkpoint of a training run named here nor "
        "what they started from",
        hint="name its training run, too",
    )
