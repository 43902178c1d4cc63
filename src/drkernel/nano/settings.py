"""Configuration of ``drkernel nano``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drkernel.collect.teacher.policy import TeacherSettings
from drkernel.config import OPERATIONAL, Section
from drkernel.nano.model import Shape
from drkernel.nano.tokenizer import SMALLEST_VOCABULARY
from drkernel.sft.settings import DataSettings, SftSettings
from drkernel.train.models import ModelSettings
from drkernel.train.optimizer import OptimizerSettings


class AttemptSettings(Section):
    """First answers of the teacher, which need no gym: it writes them before any verdict."""

    programs: int = Field(default=24_000, ge=1)
    """Synthetic programs to write for; drawn, not run."""
    seed: int = 101
    """Seed of the programs."""
    easiest: int = Field(default=1, ge=1, le=8)
    """Fewest primitive operators."""
    hardest: int = Field(default=3, ge=1, le=8)
    """Most primitive operators."""
    held_out: int = Field(default=400, ge=0)
    """Programs of the validation split, for the evaluation loss."""
    teacher: TeacherSettings = TeacherSettings()
    """What the teacher writes first."""

    def problem(self) -> str:
        """The range of difficulties must not be empty."""
        if self.easiest > self.hardest:
            return f"attempts.easiest {self.easiest} is harder than attempts.hardest {self.hardest}"
        return ""


class ProbeSettings(Section):
    """What the finished model is asked, to see what it can write."""

    programs: int = Field(default=64, ge=0)
    """Programs of the test split: operator combinations that no training text has."""
    samples: int = Field(default=4, ge=1)
    """Answers for each."""
    seed: int = 303
    """Seed of programs and answers."""
    max_tokens: int = Field(default=900, ge=16)
    """Longest answer."""


def _training() -> SftSettings:
    return SftSettings(
        model=ModelSettings(compute="bf16"),
        data=DataSettings(max_tokens=4096, rows="conversation"),
        optimizer=OptimizerSettings(
            lr=2e-3,
            beta2=0.95,
            weight_decay=0.1,
            schedule="cosine",
            warmup_share=0.02,
            final_share=0.05,
        ),
        batch_rows=64,
        epochs=4,
        micro_tokens=65_536,
        layout="padded",
        eval_every=250,
        checkpoint_every=250,
    )


class NanoSettings(Section):
    """Everything that makes a nano."""

    backend: Literal["triton", "numba"] = "triton"
    """Kernel language."""
    seed: int = 0
    """Seed of the first weights."""
    attempts: AttemptSettings = AttemptSettings()
    """First answers."""
    trajectories: tuple[str, ...] = ()
    """Folders of ``drkernel collect``: judged conversations of several turns."""
    repeat: int = Field(default=3, ge=1)
    """How often these are seen in a pass over the data: they are few."""
    vocabulary: int = Field(default=2048, ge=SMALLEST_VOCABULARY)
    """Most tokens of the tokenizer; the teacher's texts have use for about 1,800."""
    shape: Shape = Shape()
    """Sizes of the network."""
    training: Annotated[SftSettings, OPERATIONAL] = Field(default_factory=_training)
    """How it is trained; model path and files are filled in. Its folder, ``training``, stands for
    these settings: texts and first weights may be there before they are decided."""
    probe: Annotated[ProbeSettings, OPERATIONAL] = ProbeSettings()
    """What it is asked at the end."""
    minutes: Annotated[float | None, OPERATIONAL] = Field(default=None, gt=0)
    """Stop after so long; the same command goes on."""
