"""A model of some ten thousand parameters with a tokenizer of its own, as a folder."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from drkernel.nano.model import Shape, make_model
from drkernel.nano.tokenizer import train_tokenizer
from drkernel.train.models import quiet_libraries

TEXT = """import torch
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x * 2, mask=i < n)
"""
SHAPE = Shape(hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, mlp=64, context=512)


def make_folder(
    folder: Path, *, seed: int = 0, vocabulary: int = 384, shape: Shape = SHAPE
) -> Path:
    """Write model and tokenizer."""
    quiet_libraries()
    torch.set_num_threads(1)  # so small a model only loses time to threads
    tokenizer = train_tokenizer([TEXT] * 4, vocabulary, context_tokens=shape.context)
    tokenizer.save_pretrained(folder)
    make_model(shape, tokenizer, seed=seed).save_pretrained(folder)
    return folder


def conversation(number: int, turns: int = 2) -> list[dict[str, str]]:
    """A chat about a number."""
    messages = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"times {number} turn {turn}"})
        messages.append({"role": "assistant", "content": f"x * {number + turn}\n"})
    return messages


def write_conversations(path: Path, count: int, *, turns: int = 2) -> Path:
    """A JSONL file of chats."""
    lines = [
        json.dumps({"messages": conversation(n, turns), "task": f"t{n}"}) for n in range(count)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
