"""What training costs on a GPU, and how far sampler and trainer agree there.

    python benchmarks/gpu_training.py --out benchmarks/results/gpu_training.json

Makes nano's texts, tokenizer and first weights, then measures:

    fine-tuning   tokens/s and memory peak, rows padded and packed
    sampling      tokens/s of the policy (static cache, compiled) and of plain ``generate``
    agreement     log-probabilities of sampler and trainer, keep rate of MRS by length and precision

About six minutes on one H200. The weights have had a few hundred steps only: figures are about the
machinery, none is about quality.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drkernel.algo import mismatch_report
from drkernel.nano import recipe
from drkernel.nano.attempts import first_prompt, programs
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

STEPS = 300
PROMPTS = 96
MAX_TOKENS = 768
PAIRS = (("float32", "fp32"), ("bfloat16", "bf16"), ("bfloat16", "fp32"))
"""(weights of the sampler, matrix products of the trainer)."""


def fine_tuning(making: recipe.Making) -> tuple[Path, dict[str, Any]]:
    """A short training in both layouts; the model of the first."""
    found: dict[str, Any] = {}
    base = recipe.training_settings(making)
    for layout, micro, steps in (("padded", 65_536, STEPS), ("packed", 16_384, 40)):
        changes = {"layout": layout, "micro_tokens": micro, "max_steps": steps, "eval_every": 0}
        folder = making.out / f"training-{layout}"
        torch.cuda.reset_peak_memory_stats()
        run_sft(base.model_copy(update=changes | {"checkpoint_every": 10_000}), folder)
        lines = read_metrics(folder / "metrics.jsonl")
        speeds = [line["speed/tokens_per_s"] for line in lines[10:]]
        found[layout] = {
            "micro_tokens": micro,
            "steps": steps,
            "loss_first": lines[0]["sft/loss"],
            "loss_last": lines[-1]["sft/loss"],
            "tokens_per_s_median": statistics.median(speeds),
            "step_s_median": statistics.median(line["time/step_s"] for line in lines[10:]),
            "memory_peak_gib": torch.cuda.max_memory_allocated() / 2**30,
        }
    latest = Checkpoints(making.out / "training-padded" / "checkpoints").latest()
    assert latest is not None
    return latest.model, found


async def sampled(model: Path, settings: TransformersSettings, rounds: int) -> dict[str, Any]:
    """Answers to `PROMPTS` prompts, ``rounds`` times; the first round compiles."""
    from drkernel.policy.in_process import TransformersPolicy

    policy = TransformersPolicy.from_folder(model, settings)
    tasks = [one.task for one in programs(77, PROMPTS, split="validation")]
    found: list[Generation] = []
    times = []
    for round_ in range(rounds):
        began = time.perf_counter()
        sampling = Sampling(max_tokens=MAX_TOKENS, seed=round_)
        calls = [
            policy.generate(first_prompt(task, "triton"), sampling, key=task.name) for task in tasks
        ]
        found = list(await asyncio.gather(*calls))
        times.append(time.perf_counter() - began)
    await policy.aclose()
    tokens = sum(one.completion_tokens for one in found)
    return {
        "answers": found,
        "seconds": [round(t, 2) for t in times],
        "tokens_last_round": tokens,
        "tokens_per_s": tokens / times[-1],
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


def measure(folder: Path) -> dict[str, Any]:
    """Everything."""
    settings = NanoSettings(
        attempts=AttemptSettings(programs=4_000, held_out=0), probe=ProbeSettings(programs=0)
    )
    making = recipe.Making(settings, folder, time.monotonic() + 3_600, say=print)
    for stage in (recipe._attempts, recipe._collected, recipe._start):
        stage(making)
    model, tuned = fine_tuning(making)
    found: dict[str, Any] = {"fine_tuning": tuned, "sampling": {}, "agreement": {}}
    for name, settings_ in (
        ("compiled", TransformersSettings(batch=PROMPTS)),
        ("plain generate", TransformersSettings(batch=PROMPTS, compiled=False)),
    ):
        result = asyncio.run(sampled(model, settings_, 3))
        found["sampling"][name] = {k: v for k, v in result.items() if k != "answers"}
        print(name, found["sampling"][name])
    for dtype, compute in PAIRS:
        sampler = TransformersSettings(batch=PROMPTS, dtype=dtype)  # type: ignore[arg-type]
        answers = asyncio.run(sampled(model, sampler, 1))["answers"]
        found["agreement"][f"{dtype} sampler, {compute} trainer"] = one = agreement(
            model, answers, compute
        )
        print(dtype, compute, one["gap_abs_max"], one["mrs"]["keep_rate"])
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gpu-training-"))
    try:
        found = measure(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    import transformers

    found["machine"] = {
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
