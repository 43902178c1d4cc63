"""Configuration of ``drkernel train``. The defaults are the paper's; ``configs/rl`` has recipes.

Each choice that a comparison of arms is about is one flag: ``algorithm.estimator``, ``.gamma``,
``.singleton``, ``.filter_order``, ``.hack_check``, ``.mrs``, ``.mrs_level``, ``.prs``,
``episode.turns``, ``episode.reward.rule``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drkernel.algo import ESTIMATORS
from drkernel.config import OPERATIONAL, Section
from drkernel.policy.settings import PolicySettings
from drkernel.rollout.settings import EpisodeSettings, GymSettings
from drkernel.rollout.tasks import TaskSettings
from drkernel.train.batches import PASS_COST_TOKENS, Layout
from drkernel.train.models import ModelSettings
from drkernel.train.optimizer import OptimizerSettings
from kernelgym.tasks.nearest import did_you_mean


class ProblemSettings(Section):
    """Which problems are trained on, and in what order."""

    train: TaskSettings = TaskSettings(source=(), split="train")
    """Tasks to train on."""
    validation: TaskSettings = TaskSettings(source=(), split="validation", shuffle=0, limit=64)
    """Tasks to validate on; without a source, those of this split in the training source."""
    curriculum: Literal["uniform", "easy_to_hard", "running"] = "uniform"
    """uniform: every task once a pass, in a seeded order. easy_to_hard: a share of the tasks that
    grows with the steps. running: drawn by what is left to learn from each."""
    curriculum_steps: int = Field(default=100, ge=1)
    """Steps until easy_to_hard has opened every task."""
    most_operators: int | None = Field(default=None, ge=1)
    """Train on tasks of at most so many primitive operators."""


class AlgorithmSettings(Section):
    """Rewards to gradients."""

    prompts: int = Field(default=16, ge=1)
    """Prompts of one step."""
    rollouts: int = Field(default=16, ge=1)
    """Episodes of each prompt: the members of a group."""
    estimator: str = "trloo"
    """Advantage estimator, a name of ``drkernel.algo.ESTIMATORS``."""
    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount between turns."""
    singleton: Literal["raw", "zero"] = "raw"
    """Advantage of a turn alone in its group: its return, or 0."""
    filter_order: Literal["after", "before"] = "after"
    """Filters zero rows after advantages (as released), or take them out of the groups before."""
    hack_check: bool = True
    """False pays and describes what the judge calls a hack as if it were correct. Only to show what
    happens then."""
    mrs: bool = True
    """Mismatch rejection sampling."""
    mrs_low: float = Field(default=0.999, gt=0, le=1)
    """Smallest geometric mean of trainer over sampler probabilities that is kept."""
    mrs_high: float = Field(default=1.001, ge=1)
    """Largest one."""
    mrs_veto: float | None = Field(default=1e-4, gt=0, lt=1)
    """A token below this ratio drops its row; None is off."""
    mrs_level: Literal["turn", "trajectory"] = "turn"
    """Judge each turn by itself, or all turns of a trajectory together (as released)."""
    prs: bool = True
    """Profiling-based rejection sampling."""
    prs_tau: float = Field(default=0.3, ge=0, le=1)
    """Coverage up to which a correct row is dropped."""
    prs_softness: float = Field(default=0.1, ge=0)
    """Width of the ramp above tau."""
    prs_unknown: Literal["keep", "drop"] = "keep"
    """Correct rows without a coverage (a CPU has none)."""
    prs_warmup_steps: int = Field(default=0, ge=0)
    """Steps over which tau rises from 0."""
    drop_flat_groups: Literal["off", "any_turn", "last_turn"] = "off"
    """Drop groups whose returns do not vary: never, turn by turn, or whole by the last turn."""
    dynamic_sampling: bool = False
    """Draw further prompts in place of those whose returns do not vary."""
    dynamic_rounds: int = Field(default=3, ge=1)
    """Rounds of drawing until a step takes what it has."""

    def problem(self) -> str:
        """The estimator must exist."""
        if self.estimator in ESTIMATORS:
            return ""
        known = ", ".join(sorted(ESTIMATORS))
        near = did_you_mean(self.estimator, ESTIMATORS)
        return f"algorithm.estimator {self.estimator!r} is not known{near}; one of {known}"


class LossSettings(Section):
    """The policy loss."""

    clip_low: float = Field(default=0.2, ge=0)
    """Ratios below 1 - clip_low are clipped."""
    clip_high: float = Field(default=0.28, ge=0)
    """Ratios above 1 + clip_high are clipped."""
    clip_dual: float | None = Field(default=3.0, gt=1)
    """Most that a token of negative advantage may weigh."""
    aggregate: Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum"] = (
        "seq_mean_token_sum"
    )
    """How token losses become one number."""
    token_scale: float = Field(default=1.0, gt=0)
    """Divides the loss once more; the released code has 1000 with seq_mean_token_sum."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""
    minibatches: int = Field(default=1, ge=1)
    """Optimizer steps into which a batch of rows is cut; more than 1 is slightly off-policy."""


class TrainSettings(Section):
    """One run of reinforcement learning."""

    model: ModelSettings = ModelSettings()
    """Weights to start from."""
    policy: PolicySettings = PolicySettings(name="transformers")
    """What answers. ``transformers`` is the trained model itself, in this process; with
    ``openai:MODEL`` a server answers that weights can be pushed to."""
    gym: GymSettings = GymSettings()
    """What judges."""
    tasks: ProblemSettings = ProblemSettings()
    """Problems."""
    episode: EpisodeSettings = EpisodeSettings()
    """How episodes are played and paid."""
    algorithm: AlgorithmSettings = AlgorithmSettings()
    """Rewards to gradients."""
    loss: LossSettings = LossSettings()
    """The policy loss."""
    optimizer: OptimizerSettings = OptimizerSettings()
    """Updates."""
    steps: int = Field(default=300, ge=1)
    """Steps of the run."""
    seed: int = 0
    """Seed of tasks, episodes and filters."""
    micro_tokens: int = Field(default=32_768, ge=2)
    """Most tokens of one forward pass, raised to the longest row."""
    layout: Layout = "packed"
    """How rows share a forward pass."""
    pass_cost_tokens: int = Field(default=PASS_COST_TOKENS, ge=0)
    """What a forward pass costs besides its tokens, in tokens: how padded rows share passes. Small
    models want more. Results depend on it only by rounding."""
    eval_every: int = Field(default=10, ge=0)
    """Steps between validations; 0 is none."""
    eval_samples: int = Field(default=4, ge=1)
    """Episodes of each validation task."""
    checkpoint_every: int = Field(default=1, ge=1)
    """Steps between checkpoints. What was rolled out since the last one is not lost either way."""
    keep: Annotated[int, OPERATIONAL] = Field(default=2, ge=1)
    """Newest checkpoints that stay; the best on validation stays, too."""
    concurrency: Annotated[int, OPERATIONAL] = Field(default=256, ge=1)
    """Episodes at once."""
    store: Annotated[str, OPERATIONAL] = ""
    """Database of evaluations by content, shared by runs; empty keeps one in the run's folder."""
    minutes: Annotated[float | None, OPERATIONAL] = Field(default=None, gt=0)
    """Save and stop after so long; the same command goes on."""
    tensorboard: Annotated[bool, OPERATIONAL] = False
    """Write TensorBoard files, too."""
