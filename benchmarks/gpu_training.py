"""What training costs on a GPU, and how far sampler and trainer agree there.

    python benchmarks/gpu_training.py --nano runs/nano --out results.json      on a GPU, one minute
    python benchmarks/gpu_training.py --out results.json --dry-run             small, on a CPU

``--nano`` is a folder that ``drkernel nano --only-prepare`` has prepared; without it a small one is
made. Measured:

    fine-tuning   tokens/s, seconds a step and memory peak, rows padded and packed
    sampling      tokens/s compiled (static cache) and eager (growing cache), cost of compiling
    agreement     log-probabilities of sampler and trainer, keep rate of MRS by length and precision

The result is written after every part. The weights have had some steps only: figures are about the
machinery, none is about quality.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import record
from drkernel.algo import mismatch_report
from drkernel.config import load
from drkernel.nano import recipe
from drkernel.nano.attempts import first_prompt, programs
from drkernel.nano.model import Shape
from drkernel.nano.settings import AttemptSettings, NanoSettings, ProbeSettings
from drkernel.policy import TransformersSettings
from drkernel.sft.loop import run_sft
from drkernel.tracking import read_metrics
from drkernel.train.checkpoint import Checkpoints
from drkernel.train.learner import Learner
from drkernel.train.models import ModelSettings, load_model
from drkernel.train.rows import answer_row
from drkernel.train.settings import TrainSettings
from drkernel.train.trajectories import padded
from drkernel.types import Generation, Sampling

PARTS: dict[str, dict[str, Any]] = {
    "padded": {"layout": "padded", "max_steps": 40},
    "packed": {"layout": "packed", "micro_tokens": 16_384, "max_steps": 12},
    "padded, compiled": {"layout": "padded", "max_steps": 40},
}
"""What is tried of fine-tuning, against the folder's own settings."""
RECIPE = Path(__file__).parents[1] / "configs" / "nano" / "triton.toml"
"""How the model is trained: what of it is measured here."""
LIMIT_S = 60.0
"""Most seconds of a part of fine-tuning."""
PROMPTS, MAX_TOKENS, AGREEMENT_TOKENS = 32, 768, 256
PAIRS = (("float32", "fp32"), ("bfloat16", "bf16"), ("bfloat16", "fp32"))
"""(weights of the sampler, matrix products of the trainer)."""


def fine_tuning(making: recipe.Making, folder: Path, part: str, dry: bool) -> dict[str, Any]:
    """A short training."""
    base, changes = recipe.training_settings(making), PARTS[part]
    data = base.data.model_copy(update={"eval_files": ()})
    model = base.model.model_copy(update={"compiled": "compiled" in part})
    update = {
        **changes,
        **({"max_steps": 3} if dry else {}),
        "data": data,
        "model": model,
        "eval_every": 0,
        "checkpoint_every": 10_000,
        "budget_minutes": None,
        "minutes": LIMIT_S / 60,
    }
    settings = base.model_copy(update=update)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    run_sft(settings, folder, rows=making.rows)
    lines = read_metrics(folder / "metrics.jsonl")
    steady = lines[len(lines) // 3 :]
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    return {
        "rows_a_step": settings.batch_rows,
        "micro_tokens": settings.micro_tokens,
        "pass_cost_tokens": settings.pass_cost_tokens,
        "steps": len(lines),
        "loss_first": lines[0]["sft/loss"],
        "loss_last": lines[-1]["sft/loss"],
        "tokens_a_step": statistics.mean(line["sft/tokens"] for line in lines),
        "passes_a_step": statistics.mean(line["sft/forward_passes"] for line in lines),
        "tokens_per_s_median": statistics.median(one["speed/tokens_per_s"] for one in steady),
        "step_s_median": statistics.median(line["time/step_s"] for line in steady),
        "step_s_first": lines[0]["time/step_s"],
        "step_s_quantiles": np.quantile(
            [line["time/step_s"] for line in steady], [0, 0.1, 0.5, 0.9, 1]
        ).tolist(),
        "all_s": time.perf_counter() - began,
        "memory_peak_gib": peak,
    }


async def sampled(
    model: Path, settings: TransformersSettings, *, rounds: int, most: int
) -> tuple[list[Generation], dict[str, Any]]:
    """Answers to `PROMPTS` prompts, ``rounds`` times; the first round compiles."""
    from drkernel.policy.in_process import TransformersPolicy

    policy = TransformersPolicy.from_folder(model, settings)
    tasks = [one.task for one in programs(77, PROMPTS, split="validation")]
    found: list[Generation] = []
    times = []
    for round_ in range(rounds):
        began = time.perf_counter()
        sampling = Sampling(max_tokens=most, seed=round_)
        calls = [
            policy.generate(first_prompt(task, "triton"), sampling, key=task.name) for task in tasks
        ]
        found = list(await asyncio.gather(*calls))
        times.append(time.perf_counter() - began)
    await policy.aclose()
    tokens = sum(one.completion_tokens for one in found)
    longest = max(one.completion_tokens for one in found)
    return found, {
        "rounds_s": [round(t, 2) for t in times],
        "tokens_last_round": tokens,
        "tokens_per_s": tokens / times[-1],
        "ms_a_token": 1000 * times[-1] / longest,
    }


def agreement(model: Path, answers: list[Generation], compute: str) -> dict[str, Any]:
    """The trainer's log-probabilities against the sampler's."""
    settings = TrainSettings(
        model=ModelSettings(path=str(model), compute=compute),  # type: ignore[arg-type]
        layout="padded",
        micro_tokens=65_536,
    )
    learner = Learner(load_model(settings.model, what="benchmark"), settings)
    said = [one for one in answers if one.prompt_ids and one.token_ids]
    rows = [answer_row(one.prompt_ids or (), one.token_ids or ()) for one in said]
    learner.score(rows[:2])
    began = time.perf_counter()
    trained = learner.score(rows).logp
    seconds = time.perf_counter() - began
    rolled = padded([np.array(one.logprobs, dtype=float) for one in said])
    mask = padded([np.ones(len(one.token_ids or ())) for one in said]) > 0
    gap = np.abs(trained - rolled)[mask]
    report = asdict(mismatch_report(trained, rolled, mask))
    report["w_quantiles"] = {str(q): w for q, w in report["w_quantiles"].items()}
    return {
        "rows": len(rows),
        "gap_abs_mean": float(gap.mean()),
        "gap_abs_p99": float(np.quantile(gap, 0.99)),
        "gap_abs_max": float(gap.max()),
        "mrs": report,
        "score_tokens_per_s": sum(row.tokens for row in rows) / seconds,
    }


def prepared(given: Path | None, folder: Path) -> recipe.Making:
    """The texts, tokenizer and first weights of a folder, or small ones."""
    if given is not None:
        settings = load(NanoSettings, [given / "config.json", RECIPE])
        making = recipe.Making(settings, given, math.inf, say=print)
        recipe.prepare(making)
        return making
    settings = NanoSettings(
        attempts=AttemptSettings(programs=200, held_out=0),
        shape=Shape(hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, mlp=128),
        training=NanoSettings().training.model_copy(update={"batch_rows": 8}),
        probe=ProbeSettings(programs=0),
    )
    making = recipe.Making(settings, folder, math.inf, say=print)
    recipe.prepare(making)
    return making


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    """Everything; the file is written after each part."""
    found: dict[str, Any] = {"dry_run": arguments.dry_run, "fine_tuning": {}}
    found |= {"sampling": {}, "agreement": {}, "transformers": record.versions("transformers")}

    def keep() -> None:
        record.write(arguments.out, "gpu_training", found)

    (folder / "nano").mkdir()
    making = prepared(arguments.nano, folder / "nano")
    for part in PARTS:
        if arguments.dry_run and "compiled" in part:
            continue  # minutes on a CPU
        found["fine_tuning"][part] = fine_tuning(making, folder / part, part, arguments.dry_run)
        print(part, found["fine_tuning"][part], flush=True)
        keep()
        if part == "padded":
            _sampling(arguments, folder, found, keep)


def _sampling(
    arguments: argparse.Namespace, folder: Path, found: dict[str, Any], keep: Callable[[], None]
) -> None:
    """Speed of sampling, and agreement with the trainer, of the model just trained."""
    latest = Checkpoints(folder / "padded" / "checkpoints").latest()
    assert latest is not None
    model = latest.model
    most = 24 if arguments.dry_run else AGREEMENT_TOKENS
    for dtype, compute in PAIRS:
        eager = TransformersSettings(batch=PROMPTS, dtype=dtype, compiled=False)  # type: ignore[arg-type]
        answers, speed = asyncio.run(sampled(model, eager, rounds=1, most=most))
        found["sampling"][f"eager, {dtype}"] = speed
        one = agreement(model, answers, compute)
        found["agreement"][f"{dtype} sampler, {compute} trainer"] = one
        print(dtype, compute, speed, one["gap_abs_max"], one["mrs"]["keep_rate"], flush=True)
        keep()
    compiled = TransformersSettings(batch=PROMPTS, compiled=True, shortest_cache=2048)
    most = 24 if arguments.dry_run else MAX_TOKENS
    answers, speed = asyncio.run(sampled(model, compiled, rounds=2, most=most))
    found["sampling"]["compiled"] = speed
    one = agreement(model, answers, "bf16")
    found["agreement"]["compiled bfloat16 sampler, bf16 trainer"] = one
    print("compiled", speed, one["gap_abs_max"], one["mrs"]["keep_rate"], flush=True)
    keep()


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nano", type=Path)
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="gpu-training-"))
    try:
        measure(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
