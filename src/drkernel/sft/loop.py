"""The loop of supervised fine-tuning: rows -> loss -> gradient -> update.

The loss of a step is the mean over all targets of its batch, however its rows are spread over
forward passes. Everything that decides the next step is in a checkpoint or follows from the seed:
on a CPU a run that was killed and continued ends with the same bits as one that was not.

Shapes: N = targets of a micro-batch laid flat.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drkernel.config import digest
from drkernel.sft.chat_rows import RowCounts
from drkernel.sft.conversations import read_split
from drkernel.sft.row_files import kept_rows
from drkernel.sft.settings import SftSettings
from drkernel.tracking import Tracker
from drkernel.train.batches import group_rows, make_batch
from drkernel.train.checkpoint import Checkpoints, load_weights, restore_random
from drkernel.train.forward import score_tokens
from drkernel.train.models import Loaded, load_model
from drkernel.train.optimizer import Optimizer
from drkernel.train.rows import Row
from drkernel.train.run_folder import claimed
from kernelgym.errors import UsageError

_LINE = {
    "loss": "sft/loss",
    "held out": "eval/loss",
    "lr": "optimizer/lr",
    "|g|": "optimizer/grad_norm",
    "tokens/s": "speed/tokens_per_s",
}


@dataclass
class SftRun:
    """A run between two steps."""

    settings: SftSettings
    loaded: Loaded
    optimizer: Optimizer
    train: list[Row]
    held_out: list[Row]
    counts: dict[str, RowCounts]
    steps: int
    """Steps of the whole run."""
    step: int = 0
    """Steps that are done."""
    best: dict[str, float] = field(default_factory=dict)
    """``step`` and ``loss`` of the lowest evaluation loss."""
    spent_s: float = 0.0
    """Seconds of training, all calls together."""
    stop: bool = False
    """Save and end after the step under way."""

    @property
    def finished(self) -> bool:
        """Nothing is left to do."""
        return self.step >= self.steps or self.share_spent >= 1

    @property
    def share_spent(self) -> float:
        """How much of the time is over; 0 without a limit."""
        minutes = self.settings.budget_minutes
        return 0.0 if minutes is None else self.spent_s / (60 * minutes)


def run_sft(settings: SftSettings, out: Path, *, rows: Path | None = None) -> SftRun:
    """Train, from the beginning or from the last checkpoint in ``out``.

    ``rows``: where tokenised rows are kept (`drkernel.sft.row_files`); in ``out`` by default.

    SIGTERM and Ctrl-C end it after the step under way, with a checkpoint.

    Raises:
        UsageError: ``out`` holds a run of another configuration; data or weights are missing.
    """
    with claimed(out, settings, "sft"):
        checkpoints = Checkpoints(out / "checkpoints", keep=settings.keep)
        run = prepare(settings, checkpoints, rows=rows or out / "rows")
        board = out / "tensorboard" if settings.tensorboard else None
        tracker = Tracker(out / "metrics.jsonl", start=run.step + 1, tensorboard=board)
        try:
            with _stopping(run):
                _steps(run, checkpoints, tracker)
        finally:
            tracker.close()
    return run


@contextmanager
def _stopping(run: SftRun) -> Iterator[None]:
    """SIGTERM and Ctrl-C set ``run.stop``; outside the main thread nothing is changed."""

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        with suppress(ValueError):  # only the main thread may
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(*_: object) -> None:
        run.stop = True
        restore()  # a second signal ends it at once

    with suppress(ValueError):
        for number in before:
            signal.signal(number, stop)
    try:
        yield
    finally:
        restore()


def _steps(run: SftRun, checkpoints: Checkpoints, tracker: Tracker) -> None:
    settings, deadline = run.settings, deadline_in(run.settings.minutes)
    if run.finished:
        return
    last = time.monotonic()
    for batch in batches_from(run):
        began = time.perf_counter()
        metrics = train_step(run, batch)
        run.step += 1
        metrics["time/step_s"] = time.perf_counter() - began
        now = time.monotonic()
        run.spent_s, last = run.spent_s + now - last, now
        metrics["speed/tokens_per_s"] = metrics["sft/tokens"] / max(metrics["time/step_s"], 1e-9)
        if run.held_out and (run.finished or _due(run.step, settings.eval_every)):
            metrics |= evaluate(run)
        if run.step == 1:
            for name, counts in run.counts.items():
                metrics |= counts.as_metrics(name)
        tracker.log(run.step, metrics, line=_LINE)
        ends = run.finished or run.stop or time.monotonic() > deadline
        is_best = run.best.get("step") == run.step
        if ends or is_best or _due(run.step, settings.checkpoint_every):
            save(run, checkpoints)
        if ends:
            return


def deadline_in(minutes: float | None) -> float:
    """The moment, on the monotonic clock, after which no step is begun."""
    return math.inf if minutes is None else time.monotonic() + 60 * minutes


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def rows_of(
    settings: SftSettings, tokenizer: Any, context_tokens: int, *, rows: Path
) -> dict[str, tuple[list[Row], RowCounts]]:
    """``train`` and ``eval``; ``rows`` is the folder where they are kept."""
    split = read_split(settings.data)
    longest = min(settings.data.max_tokens, context_tokens)
    return {
        name: kept_rows(
            rows, tokenizer, conversations, max_tokens=longest, layout=settings.data.rows
        )
        for name, conversations in (("train", split.train), ("eval", split.held_out))
    }


def prepare(settings: SftSettings, checkpoints: Checkpoints, *, rows: Path) -> SftRun:
    """Model, rows and optimizer, as the last checkpoint left them."""
    loaded = load_model(settings.model, what="sft")
    made = rows_of(settings, loaded.tokenizer, loaded.context_tokens, rows=rows)
    train = made["train"][0]
    steps = settings.epochs * math.ceil(len(train) / settings.batch_rows)
    steps = min(steps, settings.max_steps or steps)
    optimizer = Optimizer(loaded.model, settings.optimizer, steps)
    counts = {name: part[1] for name, part in made.items()}
    run = SftRun(settings, loaded, optimizer, train, made["eval"][0], counts, steps)
    torch.manual_seed(settings.seed)
    latest = checkpoints.latest()
    if latest is not None:
        state, tensors = latest.state(), latest.tensors()
        load_weights(loaded.model, latest.model)
        optimizer.restore(tensors["optimizer"])
        restore_random(tensors["random"])
        run.step, run.best = latest.step, state["best"]
        run.spent_s = state.get("spent_s", 0.0)
        if state["rows"] != len(train):
            raise UsageError(
                f"the data has changed: {len(train)} rows now, {state['rows']} at the checkpoint",
                hint="--out another directory",
            )
    return run


def save(run: SftRun, checkpoints: Checkpoints) -> None:
    """A checkpoint of this step; the best one so far stays, too."""
    checkpoints.save(
        run.step,
        model=run.loaded.model,
        tokenizer=run.loaded.tokenizer,
        tensors={"optimizer": run.optimizer.state()},
        state={
            "best": run.best,
            "rows": len(run.train),
            "spent_s": run.spent_s if run.settings.budget_minutes else 0.0,
            "config": digest(run.settings),
        },
        protect=frozenset({int(run.best["step"])} if run.best else ()),
    )


def batches_from(run: SftRun) -> Iterator[list[Row]]:
    """Batches of the steps that are left; every row once an epoch, in an order of its own."""
    size = run.settings.batch_rows
    each = math.ceil(len(run.train) / size)
    for step in range(run.step, run.steps):
        epoch, place = divmod(step, each)
        order = np.random.default_rng([run.settings.seed, epoch]).permutation(len(run.train))
        yield [run.train[i] for i in order[place * size : (place + 1) * size]]


def train_step(run: SftRun, rows: Sequence[Row]) -> dict[str, float]:
    """One optimizer step; its metrics."""
    model, settings = run.loaded.model, run.settings
    targets = sum(row.targets for row in rows)
    loss, entropy = 0.0, 0.0
    groups = _groups(settings, rows)
    for group in groups:
        batch = make_batch([rows[i] for i in group], settings.layout)
        scores = score_tokens(model, batch, compute=settings.model.compute)
        part = -scores.logp_N.sum() / targets
        torch.autograd.backward(part)
        loss += float(part.detach())
        entropy += float(scores.entropy_N.detach().sum()) / targets
    report = run.optimizer.step(share_done=run.share_spent)
    return {
        "sft/loss": loss,
        "sft/perplexity": math.exp(min(loss, 100.0)),
        "sft/entropy": entropy,
        "sft/targets": float(targets),
        "sft/tokens": float(sum(row.tokens for row in rows)),
        "sft/rows": float(len(rows)),
        "sft/forward_passes": float(len(groups)),
        "sft/epoch": (run.step + 1) * settings.batch_rows / len(run.train),
        **report.as_metrics(),
    }


def _groups(settings: SftSettings, rows: Sequence[Row]) -> list[list[int]]:
    """Rows of each forward pass."""
    lengths = [row.tokens for row in rows]
    cost = settings.pass_cost_tokens
    return group_rows(lengths, settings.pass_tokens, settings.layout, pass_cost_tokens=cost)


def evaluate(run: SftRun) -> dict[str, float]:
    """Loss on the held-out rows; remembers the best step."""
    loss = mean_loss(run, run.held_out)
    if math.isfinite(loss) and (not run.best or loss < run.best["loss"]):
        run.best = {"step": run.step, "loss": loss}
    return {"eval/loss": loss, "eval/perplexity": math.exp(min(loss, 100.0))}


def mean_loss(run: SftRun, rows: Sequence[Row]) -> float:
    """Mean negative log-probability over all targets of ``rows``."""
    settings, total = run.settings, 0.0
    with torch.no_grad():
        for group in _groups(settings, rows):
            batch = make_batch([rows[i] for i in group], settings.layout)
            scores = score_tokens(run.loaded.model, batch, compute=settings.model.compute)
            total -= float(scores.logp_N.double().sum())
    return total / max(1, sum(row.targets for row in rows))
