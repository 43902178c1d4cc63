"""Configuration of ``drkernel sft``. The defaults are the paper's; ``configs/sft`` has recipes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drkernel.config import OPERATIONAL, Section
from drkernel.train.batches import PASS_COST_TOKENS, Layout
from drkernel.train.models import ModelSettings
from drkernel.train.optimizer import OptimizerSettings

RowLayout = Literal["auto", "conversation", "turns"]


class DataSettings(Section):
    """Which conversations, and how they become rows."""

    files: tuple[str, ...] = ()
    """JSONL or Parquet files of conversations to train on."""
    eval_files: tuple[str, ...] = ()
    """Files for the evaluation loss. Without any, ``eval_share`` of the training conversations."""
    eval_share: float = Field(default=0.02, ge=0, lt=1)
    """Share of the conversations held out, by task where ``group_column`` names one."""
    messages_column: str = "messages"
    """Column that holds the list of role and content."""
    group_column: str = "original_python_code"
    """Column that names the task: held-out conversations share none with those trained on. Without
    such a column the first user message stands for it."""
    max_tokens: int = Field(default=32_768, ge=2)
    """Longer rows are cut on the right, and counted."""
    rows: RowLayout = "auto"
    """``conversation``: one row a conversation, loss on every assistant turn. ``turns``: one row a
    turn, as in reinforcement learning. ``auto``: the first where the chat template shows earlier
    turns unchanged, else the second."""


class SftSettings(Section):
    """One run of supervised fine-tuning."""

    model: ModelSettings = ModelSettings()
    """Weights to start from."""
    data: DataSettings = DataSettings()
    """Conversations."""
    optimizer: OptimizerSettings = OptimizerSettings()
    """Updates."""
    batch_rows: int = Field(default=256, ge=1)
    """Rows of one optimizer step."""
    epochs: int = Field(default=4, ge=1)
    """Passes over the data."""
    max_steps: int | None = Field(default=None, ge=1)
    """Stop after so many steps; the schedule is made for this number, too."""
    budget_minutes: float | None = Field(default=None, gt=0)
    """Finish after so many minutes of training, all calls together: the learning rate falls with
    the time, or with the steps where these are faster. Such a run cannot be repeated to the bit."""
    seed: int = 0
    """Order of the rows."""
    micro_tokens: int = Field(default=32_768, ge=2)
    """Most tokens of one forward pass, raised to ``data.max_tokens``. Memory depends on it, results
    only by rounding."""
    layout: Layout = "packed"
    """How rows share a forward pass."""
    pass_cost_tokens: int = Field(default=PASS_COST_TOKENS, ge=0)
    """What a forward pass costs besides its tokens, in tokens: how padded rows share passes. Small
    models want more. Results depend on it only by rounding."""
    eval_every: int = Field(default=50, ge=0)
    """Steps between evaluation losses; 0 is only at the end."""
    checkpoint_every: int = Field(default=50, ge=1)
    """Steps between checkpoints; there is one at the end anyway."""
    keep: Annotated[int, OPERATIONAL] = Field(default=2, ge=1)
    """Newest checkpoints that stay."""
    minutes: Annotated[float | None, OPERATIONAL] = Field(default=None, gt=0)
    """Save and stop after so long; the same command goes on."""
    tensorboard: Annotated[bool, OPERATIONAL] = False
    """Write TensorBoard files, too."""

    @property
    def pass_tokens(self) -> int:
        """Most tokens of one forward pass: ``micro_tokens``, but at least the longest row."""
        return max(self.micro_tokens, self.data.max_tokens)
