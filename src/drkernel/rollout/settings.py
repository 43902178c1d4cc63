"""How episodes are played: turns, context, budgets, judging, reward. Recipes hold these tables."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drkernel.algo import REWARD_RULES, RewardRule
from drkernel.config import OPERATIONAL, Section
from drkernel.types import Sampling
from kernelgym.schema import JailLevel, Precision, Protocol, Submission, Task


class ContextSettings(Section):
    """Which earlier turns the next prompt shows, and what happens when it is too long."""

    rule: Literal["all", "top", "recent", "window"] = "all"
    """all; top: the w turns of highest reward; recent: the last w; window: the w consecutive turns
    of largest summed reward."""
    w: int = Field(default=4, ge=1)
    """Turns to keep under every rule but all."""
    max_turns: int | None = Field(default=None, ge=2)
    """Turns that one context holds: earlier turns are chosen anew when it is full, and shown
    together with those played since. None chooses for every turn."""
    overflow: Literal["stop", "drop_oldest"] = "stop"
    """A prompt that leaves no room: end the episode, or leave out the oldest turns that it shows,
    as a user's client would."""


class BudgetSettings(Section):
    """What one episode may use. A turn that does not fit is missing, never a zero."""

    context_tokens: int = Field(default=32_768, ge=256)
    """Prompt and answer of one turn together; a smaller context of the policy wins."""
    prompt_tokens: int | None = Field(default=None, ge=64)
    """Longest prompt; None leaves it to context_tokens."""
    min_answer_tokens: int = Field(default=256, ge=1)
    """With less room than this for an answer a turn is not begun."""
    episode_tokens: int | None = Field(default=None, ge=1)
    """Answer tokens of a whole episode; None for no limit."""


class SamplingSettings(Section):
    """How answers are drawn."""

    temperature: float = Field(default=1.0, ge=0)
    """0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus; 1 keeps the whole distribution."""
    max_tokens: int = Field(default=8192, ge=1)
    """Longest answer in tokens, reasoning included."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer."""


class JudgingSettings(Section):
    """How candidates are judged."""

    backend: str = "triton"
    """Kernel language: triton, cuda, numba, ..."""
    protocol: Protocol = "standard"
    """Tolerances and modes; kernelbench only to compare with published numbers."""
    precision: Precision = "fp32"
    """Floating-point type of parameters and inputs."""
    baseline: Literal["eager", "torch_compile"] = "eager"
    """What the speedup is measured against."""
    trials: int = Field(default=5, ge=1, le=100)
    """Fresh inputs for the correctness check, in each mode."""
    timeout_s: float = Field(default=120.0, gt=0, le=3600)
    """Seconds that a candidate may take in all."""
    memory_mb: int = Field(default=8192, ge=256)
    """MiB of host memory that a candidate may use."""

    def submission(self, task: Task, source: str) -> Submission:
        """The request for one candidate."""
        return Submission(
            task=task,
            source=source,
            backend=self.backend,
            protocol=self.protocol,
            precision=self.precision,
            baseline=self.baseline,
            trials=self.trials,
            timeout_s=self.timeout_s,
            memory_mb=self.memory_mb,
        )


class RewardSettings(Section):
    """How a verdict is paid: a named rule, and what deviates from it."""

    rule: Literal["paper", "paper_without_profiling", "released", "displaced", "gated"] = "paper"
    """Named bundle of ``drkernel.algo.REWARD_RULES``."""
    cap: float = Field(default=3.0, gt=0)
    """Largest speedup that is paid for."""

    def built(self) -> RewardRule:
        """The rule."""
        named = REWARD_RULES[self.rule]
        return RewardRule(
            form=named.form,
            credit=named.credit,
            cap=self.cap,
            weights=named.weights,
            r_compile=named.r_compile,
            r_incorrect=named.r_incorrect,
            transform=named.transform,
        )


class EpisodeSettings(Section):
    """Everything that decides an episode, besides task, policy and sample."""

    turns: int = Field(default=3, ge=1)
    """Most turns of an episode."""
    seed: int = 0
    """Seed of every draw, together with task, sample and turn."""
    variant: Literal["train", "distill", "compact"] = "train"
    """Text of the prompts: train for training and evaluation, distill asks a teacher for a written
    plan, compact for models with little context."""
    gpu: str = ""
    """Name of the GPU that prompts speak of; empty says nothing."""
    feedback_tokens: int = Field(default=1024, ge=64)
    """Longest feedback on one turn."""
    stop_at_speedup: float | None = Field(default=None, gt=0)
    """A correct candidate that is so much faster ends the episode; None plays every turn."""
    infrastructure_rounds: int = Field(default=2, ge=0)
    """How often the stored code of a turn is evaluated again after the gym failed it."""
    context: ContextSettings = ContextSettings()
    """Earlier turns in prompts."""
    budget: BudgetSettings = BudgetSettings()
    """Limits."""
    sampling: SamplingSettings = SamplingSettings()
    """How answers are drawn."""
    judging: JudgingSettings = JudgingSettings()
    """How candidates are judged."""
    reward: RewardSettings = RewardSettings()
    """How verdicts are paid."""

    def drawn(self, room: int) -> Sampling:
        """Sampling of one call that has ``room`` tokens for its answer."""
        chosen = self.sampling
        return Sampling(
            temperature=chosen.temperature,
            top_p=chosen.top_p,
            max_tokens=max(1, min(chosen.max_tokens, room)),
            stop=chosen.stop,
            seed=self.seed,
        )


class GymSettings(Section):
    """Where candidates are judged. Nothing here decides results, except what the GPU is."""

    server: Annotated[str, OPERATIONAL] = "auto"
    """Address of a gym; here: this process; auto: $KERNELGYM_SERVER, else here."""
    token_file: Annotated[str, OPERATIONAL] = ""
    """File with the gym's bearer token; default $KERNELGYM_TOKEN."""
    device: Annotated[str, OPERATIONAL] = "auto"
    """Here: auto, cpu or cuda:N. In a gym: any, cpu, gpu or a class of GPU."""
    jail: Annotated[JailLevel, OPERATIONAL] = "L1"
    """Confinement of candidates here; a lower level is taken where this cannot be had."""
    evaluations: Annotated[int | None, OPERATIONAL] = Field(default=None, ge=1)
    """Evaluations at once here; default: one a core."""
    patience_s: Annotated[float, OPERATIONAL] = Field(default=300.0, gt=0)
    """How long a gym may be away before a turn counts as failed by it."""
    retries: Annotated[int, OPERATIONAL] = Field(default=2, ge=0)
    """Further attempts at an evaluation that the gym failed."""
