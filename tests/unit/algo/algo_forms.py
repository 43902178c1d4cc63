"""The forms in which a caller may hand over the same numbers, and random batches of episodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

ORACLES = Path(__file__).parent / "oracles"
BOUNDED = settings(max_examples=40, deadline=None)

FORMS = {
    "list": lambda values: np.asarray(values, dtype=float).tolist(),
    "numpy64": lambda values: np.asarray(values, dtype=np.float64),
    "numpy32": lambda values: np.asarray(values, dtype=np.float32),
    "torch64": lambda values: torch.tensor(np.asarray(values), dtype=torch.float64),
    "torch32": lambda values: torch.tensor(np.asarray(values), dtype=torch.float32),
    "bfloat16": lambda values: torch.tensor(np.asarray(values), dtype=torch.bfloat16),
}
EXACT_FORMS = ("list", "numpy64", "torch64")


def load(name: str) -> dict:
    return json.loads((ORACLES / f"{name}.json").read_text())


def plain(result) -> np.ndarray:
    """Any result as a float64 numpy array."""
    if isinstance(result, torch.Tensor):
        return result.detach().double().numpy()
    return np.asarray(result, dtype=np.float64)


@dataclass(frozen=True)
class Batch:
    values: np.ndarray
    group: np.ndarray
    valid: np.ndarray


@st.composite
def batches(draw, max_rows: int = 64, max_turns: int = 6, prefix: bool = False) -> Batch:
    """Ragged groups, any validity (or only leading turns valid), rewards on a grid with ties."""
    rows = draw(st.integers(1, max_rows))
    turns = draw(st.integers(1, max_turns))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    group = generator.integers(0, draw(st.integers(1, rows)), rows)
    values = generator.integers(-8, 20, (rows, turns)) / 4
    if prefix:
        valid = np.arange(turns)[None, :] < generator.integers(0, turns + 1, rows)[:, None]
    else:
        valid = generator.random((rows, turns)) < draw(st.sampled_from([0.0, 0.3, 0.8, 1.0]))
    return Batch(values, group, valid)
