"""The finished model's folder: one safetensors file in bfloat16, tokenizer, card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drkernel.rollout.directory import write_whole
from drkernel.train.checkpoint import Checkpoint
from kernelgym.errors import ServiceError

if TYPE_CHECKING:
    from drkernel.nano.recipe import Making

MOST_BYTES = 16 * 1024 * 1024

_CARD = """---
license: apache-2.0
library_name: transformers
tags: [{backend}, kernels, drkernel]
---
# nano ({backend})

A policy of {parameters:.2f}M parameters (Qwen3's architecture: {shape}) with a byte-level BPE
tokenizer of {vocabulary} tokens. It writes {title} modules for the synthetic tasks of `kernelgym`,
several turns long, and knows nothing else. It stands in for a large model wherever the machinery
is what is looked at: tests, demonstrations, ablations of reinforcement learning. No figure of it
says anything about large models.

It was trained from nothing on the answers of a scripted teacher with faults, and has its vices:
wrong and broken code, work left to torch, kernels whose result nobody reads. Reinforcement
learning is there to cure them.

## Data

* {attempts:,} first answers of the teacher to drawn programs, unjudged ({operators} operators)
* {collected:,} conversations of several turns, judged by the gym, seen {repeat} times a pass

Programs whose set of operators falls into the validation or test split are in no training row.

## Training

{steps:,} steps of {batch} rows ({passes:.1f} passes){cut_off}, learning rate {lr:g}; evaluation
loss {loss} a token on {held_out:,} conversations of the validation split at step {step:,}, which is
exported.

## Made by

    drkernel nano -c recipe.json --out FOLDER

with the `recipe.json` in this folder.
"""


def export(making: Making, trained: Checkpoint) -> None:
    """Write the folder; the card comes last and says that all is there."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(trained.model, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(trained.model)
    model.save_pretrained(making.model)
    tokenizer.save_pretrained(making.model)
    size = sum(path.stat().st_size for path in making.model.glob("*.safetensors"))
    if size > MOST_BYTES:
        raise ServiceError(f"the weights take {size} bytes, more than {MOST_BYTES}")
    recipe = making.settings.model_dump(mode="json")
    write_whole(making.model / "recipe.json", json.dumps(recipe, indent=1) + "\n")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    write_whole(making.model / "README.md", _card(making, parameters, len(tokenizer)))


def _card(making: Making, parameters: int, vocabulary: int) -> str:
    settings, shape = making.settings, making.settings.shape
    trained = json.loads((making.out / "trained.json").read_text("utf-8"))
    attempts, collected = making.files("train")
    loss = trained.get("loss")
    return _CARD.format(
        backend=settings.backend,
        title=settings.backend.capitalize(),
        parameters=parameters / 1e6,
        shape=f"{shape.layers} layers, width {shape.hidden}, context {shape.context}",
        vocabulary=vocabulary,
        attempts=_lines(attempts),
        operators=f"{settings.attempts.easiest} to {settings.attempts.hardest}",
        collected=_lines(collected),
        repeat=settings.repeat,
        steps=trained["steps"],
        batch=settings.training.batch_rows,
        lr=settings.training.optimizer.lr,
        passes=trained["steps"] * settings.training.batch_rows / trained["rows"],
        cut_off=", cut off before its end" if trained.get("cut_off") else "",
        loss="was not measured" if loss is None else f"{loss:.4f} nats",
        held_out=sum(_lines(path) for path in making.files("validation")),
        step=trained["step"],
    )


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)
