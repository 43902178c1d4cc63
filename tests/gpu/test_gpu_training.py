"""Fine-tuning, sampling and one update on a GPU: bf16 learns, weights arrive, both sides agree."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("transformers")

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
from drkernel.types import Sampling


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small nano after sixty steps in bfloat16."""
    out = tmp_path_factory.mktemp("nano")
    settings = NanoSettings(
        attempts=AttemptSettings(programs=400, held_out=0),
        shape=Shape(hidden=128, layers=3, heads=4, kv_heads=2, head_dim=32, mlp=256),
        probe=ProbeSettings(programs=0),
    )
    making = recipe.Making(settings, out, 0.0)
    recipe.prepare(making)
    short = recipe.training_settings(making).model_copy(
        update={"max_steps": 60, "batch_rows": 16, "epochs": 10, "eval_every": 0}
    )
    run_sft(short, out / "training")
    losses = [line["sft/loss"] for line in read_metrics(out / "training" / "metrics.jsonl")]
    assert losses[-1] < losses[0] - 2
    return Checkpoints(out / "training" / "checkpoints").latest().model


@pytest.mark.parametrize(
    ("dtype", "compute", "mean", "p99"),
    [("float32", "fp32", 1e-4, 1e-3), ("bfloat16", "bf16", 0.05, 0.5)],
)
def test_sampler_and_trainer_agree_after_a_push(model, dtype, compute, mean, p99):
    from drkernel.policy.in_process import TransformersPolicy

    settings = TrainSettings(
        model=ModelSettings(path=str(model), compute=compute, device="cuda:0"), layout="padded"
    )
    learner = Learner(load_model(settings.model, what="test"), settings)

    async def sample():
        policy = TransformersPolicy.from_folder(
            model, TransformersSettings(device="cuda:0", dtype=dtype, batch=8)
        )
        await policy.push_weights(learner.loaded.model.state_dict(), 1)
        tasks = [one.task for one in programs(7, 8, split="validation")]
        calls = [
            policy.generate(
                first_prompt(task, "triton"), Sampling(max_tokens=128, seed=0), key=task.name
            )
            for task in tasks
        ]
        found = await asyncio.gather(*calls)
        await policy.aclose()
        return found

    said = asyncio.run(sample())
    rows = [answer_row(one.prompt_ids, one.token_ids) for one in said]
    scores = learner.score(rows)
    mask = padded([np.ones(len(one.token_ids)) for one in said]) > 0
    gap = np.abs(scores.logp - padded([np.array(one.logprobs) for one in said]))[mask]
    # bfloat16 rounds what is unlikely most: the largest gap of a thousand tokens says nothing
    assert gap.mean() < mean and np.quantile(gap, 0.99) < p99, (gap.mean(), gap.max())
    update = learner.update(
        rows, np.linspace(-1, 1, len(rows)), np.ones(len(rows), bool), scores.logp, step=1
    )
    assert len(update.steps) == 1 and not update.steps[0].skipped, update
    assert update.metrics["update/ratio_mean"] == pytest.approx(1.0, abs=1e-2), update.metrics
