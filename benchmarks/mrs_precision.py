"""What share of answers mismatch rejection keeps, by length and precision, on a CPU.

    python benchmarks/mrs_precision.py --out benchmarks/results/mrs_precision.json

Two policies of some hundred thousand parameters: the cold start of `rl_numba`, which is sure of
most tokens, and one with random weights, which is sure of none. Sampler and trainer hold the same
weights, so whatever is rejected is rejected for rounding alone. For each pair of precisions and
each length at which answers are cut: keep rate in the window [0.999, 1.001], quantiles of w, and
the gap of log-probabilities. `gpu_training.py` measures the same on a GPU, with its kernels.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

import record
from drkernel.nano.attempts import first_prompt
from drkernel.nano.model import make_model
from drkernel.policy import TransformersSettings
from drkernel.policy.in_process import TransformersPolicy
from drkernel.train.models import quiet_libraries
from drkernel.types import Generation, Sampling
from gpu_training import PAIRS, agreement
from rl_numba import SHAPE, cold_start, task

LENGTHS = (8, 32, 128, 384)
ANSWERS = 96


async def answers_of(model: Path, dtype: str, most: int) -> list[Generation]:
    """Answers at temperature 1, at most so many tokens long."""
    settings = TransformersSettings(device="cpu", dtype=dtype, batch=ANSWERS)  # type: ignore[arg-type]
    policy = TransformersPolicy.from_folder(model, settings)
    prompt, sampling = first_prompt(task(40), "numba"), Sampling(max_tokens=most, seed=0)
    asked = [policy.generate(prompt, sampling, key=str(n)) for n in range(ANSWERS)]
    said = await asyncio.gather(*asked)
    await policy.aclose()
    return list(said)


def measured(model: Path) -> list[dict[str, Any]]:
    """One row for each pair of precisions and each length."""
    rows = []
    for dtype, compute in PAIRS:
        for most in LENGTHS:
            said = asyncio.run(answers_of(model, dtype, most))
            found = agreement(model, said, compute)
            rows.append(
                {
                    "sampler": dtype,
                    "trainer": compute,
                    "cut_at": most,
                    "tokens_mean": sum(one.completion_tokens for one in said) / len(said),
                    "keep_rate": found["mrs"]["keep_rate"],
                    "w_quantiles": found["mrs"]["w_quantiles"],
                    "gap_abs_mean": found["gap_abs_mean"],
                    "gap_abs_max": found["gap_abs_max"],
                    "answers": found["rows"],
                }
            )
            print({name: value for name, value in rows[-1].items() if name != "w_quantiles"})
    return rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    quiet_libraries()
    folder = Path(tempfile.mkdtemp(prefix="mrs-precision-"))
    try:
        trained = cold_start(folder, 0)
        from transformers import AutoTokenizer

        untrained = folder / "untrained"
        tokenizer = AutoTokenizer.from_pretrained(trained)
        tokenizer.save_pretrained(untrained)
        make_model(SHAPE, tokenizer, seed=0).save_pretrained(untrained)
        found = {"cold start": measured(trained), "random weights": measured(untrained)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    record.write(arguments.out, "mrs_precision", {"load_average": os.getloadavg(), **found})


if __name__ == "__main__":
    main()
