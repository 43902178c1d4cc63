"""The whole recipe in small: texts, tokenizer, training, export, probe; and going on with it."""

import asyncio
import json
import math
import time

import pytest
import torch
from safetensors.torch import load_file

from drkernel.collect.teacher.policy import ScriptedTeacher
from drkernel.nano import recipe
from drkernel.nano.attempts import programs
from drkernel.nano.model import Shape, make_model
from drkernel.nano.novelty import kernel_hashes
from drkernel.nano.probe import counted
from drkernel.nano.settings import AttemptSettings, NanoSettings, ProbeSettings
from drkernel.nano.tokenizer import train_tokenizer
from drkernel.rollout.episode import run_episode
from drkernel.rollout.log import EpisodeLog, head_of
from drkernel.rollout.settings import EpisodeSettings, JudgingSettings
from drkernel.types import Generation
from kernelgym.errors import UsageError
from kernelgym.schema import EvalResult, Failure, Outcome


class Judge:
    """Finds everything wrong."""

    async def evaluate(self, submission, *, key="", force=False):
        failure = Failure(stage="compare", code="value_mismatch", message="wrong everywhere")
        return EvalResult(
            task=submission.task.name, outcome=Outcome.MISMATCH, correct=False, failure=failure
        )


def collected(folder):
    """A folder as ``drkernel collect`` leaves it."""
    folder.mkdir()
    settings = EpisodeSettings(
        turns=2, variant="compact", feedback_tokens=96, judging=JudgingSettings(backend="numba")
    )
    tasks = [program.task for program in programs(7, 3, split="train")]
    tasks += [program.task for program in programs(7, 2, split="test")]
    (folder / "tasks.jsonl").write_text("".join(task.model_dump_json() + "\n" for task in tasks))
    with EpisodeLog(folder / "episodes.jsonl") as log:
        for task in tasks:
            teacher = ScriptedTeacher(language="numba")
            episode = asyncio.run(run_episode(task, teacher, Judge(), settings, sample=0))
            for turn in episode.turns:
                log.turn(head_of(episode), turn)
            log.end(head_of(episode), episode.stopped)
    return folder


def settings_of(folder):
    training = NanoSettings().training
    return NanoSettings(
        backend="numba",
        attempts=AttemptSettings(programs=24, held_out=4, hardest=2),
        trajectories=(str(folder),),
        repeat=2,
        vocabulary=600,
        shape=Shape(hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, mlp=64, context=2048),
        training=training.model_copy(
            update={
                "batch_rows": 8,
                "epochs": 1,
                "model": training.model.model_copy(update={"compute": "fp32", "device": "cpu"}),
                "data": training.data.model_copy(update={"max_tokens": 2048}),
                "micro_tokens": 4096,
                "checkpoint_every": 2,
            }
        ),
        probe=ProbeSettings(programs=2, samples=2, max_tokens=24),
    )


def make(settings, out, minutes=math.inf, **options):
    out.mkdir(exist_ok=True)
    timed = settings.model_copy(update={"minutes": None if math.isinf(minutes) else minutes})
    making = recipe.Making(timed, out, time.monotonic() + 60 * minutes, **options)
    recipe.make(making)
    return making


def test_the_recipe_from_nothing_to_a_probe(tmp_path):
    torch.set_num_threads(1)
    settings = settings_of(collected(tmp_path / "collect"))
    # prepared elsewhere and moved, without the weights, which follow from the seed
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    recipe.prepare(recipe.Making(settings, prepared, math.inf))
    first_weights = (prepared / "start" / "model.safetensors").read_bytes()
    for name in ("model.safetensors", "config.json"):
        (prepared / "start" / name).unlink()
    made = sorted(path.name for path in (prepared / "rows").iterdir())
    prepared.rename(tmp_path / "nano")
    # the first calls are out of time after one step each
    calls = 0
    while not make(settings, tmp_path / "nano", minutes=0.0 if calls < 2 else math.inf).finished:
        calls += 1
    assert calls == 2
    out = tmp_path / "nano"
    assert (out / "start" / "model.safetensors").read_bytes() == first_weights
    assert sorted(path.name for path in (out / "rows").iterdir()) == made
    assert len(made) == 2  # nothing was tokenised again
    lines = (out / "collected-train.jsonl").read_text().splitlines()
    chats = [json.loads(line) for line in lines]
    assert len(chats) == 3  # nothing of the test split
    assert [message["role"] for message in chats[0]["messages"]] == ["user", "assistant"] * 2
    trained = json.loads((out / "trained.json").read_text())
    assert trained["rows"] == 24 + 2 * 3
    weights = load_file(out / "model" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    probe = json.loads((out / "probe.json").read_text())
    assert probe["answers"] == 4 and probe["kernels_in_training"] > 5
    card = (out / "model" / "README.md").read_text()
    assert "24 first answers" in card and "{" not in card
    # the recipe in the folder is the recipe
    stored = NanoSettings.model_validate_json((out / "model" / "recipe.json").read_text())
    assert stored.model_copy(update={"minutes": None}) == settings


def test_a_training_that_was_cut_off_can_be_exported(tmp_path):
    torch.set_num_threads(1)
    settings = settings_of(collected(tmp_path / "collect"))
    settings = settings.model_copy(update={"probe": ProbeSettings(programs=0)})
    out = tmp_path / "nano"
    assert not make(settings, out, minutes=0.0).finished  # one step
    assert make(settings, out, as_it_is=True).finished
    assert "1 steps of 8 rows (0.3 passes), cut off" in (out / "model" / "README.md").read_text()
    assert json.loads((out / "trained.json").read_text())["step"] == 1
    other = settings.model_copy(
        update={"training": settings.training.model_copy(update={"batch_rows": 4})}
    )
    with pytest.raises(UsageError, match="other settings"):
        make(other, out)


def test_programs_of_splits_share_no_combination():
    sets = {
        split: {frozenset(one.operators) for one in programs(3, 30, split=split)}
        for split in ("train", "validation", "test")
    }
    assert all(sets.values())
    assert not sets["train"] & sets["test"] and not sets["train"] & sets["validation"]


def test_attempts_are_repeatable(tmp_path):
    for name in ("a", "b"):
        recipe.write_attempts(
            tmp_path / name, AttemptSettings(), backend="triton", split="train", count=5
        )
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()


def test_tokens_are_lossless_and_borders_hold():
    tokenizer = train_tokenizer(["def f(x_1):\n    return x_1 + 10\n"] * 3, 300)
    for text in ("def f(x_1):\n\n    return 'ä€' + 1234\t\n", "<|im_end|>"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer("2048")["input_ids"]) == 4
    with pytest.raises(ValueError, match="at least 259"):
        train_tokenizer(["a"], 100)


def test_weights_follow_from_the_seed_and_are_bounded():
    tokenizer = train_tokenizer(["a"], 300)
    shape = Shape(hidden=16, layers=1, heads=2, kv_heads=1, head_dim=8, mlp=16)
    first, again, other = (make_model(shape, tokenizer, seed=seed) for seed in (1, 1, 2))
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(first.state_dict()[name], again.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], other.state_dict()[name])
    with pytest.raises(UsageError, match="at most 8M"):
        make_model(Shape(hidden=512, layers=8), tokenizer, seed=0)


KERNEL = "@njit(cache=True)\ndef add(a, b):\n    for i in range(len(a)):\n        a[i] += b[i]\n"


def test_kernels_differ_by_what_they_do():
    renamed = KERNEL.replace("add", "plus").replace("a", "q").replace("rqnge", "range")
    renamed = renamed.replace("cqche", "cache")
    assert kernel_hashes(renamed) == kernel_hashes(KERNEL)
    assert kernel_hashes(KERNEL.replace("+=", "-=")) != kernel_hashes(KERNEL)
    assert kernel_hashes("def add(a):\n    return a\n") == []
    assert kernel_hashes("def (") == []


def test_counts_of_a_probe():
    def said(code, finish="stop"):
        return Generation(text=f"```python\n{code}```\n", finish=finish)

    module = KERNEL + "class ModelNew:\n    pass\n"
    answers = [
        said(module),
        said(module.replace("+=", "-=")),
        said("def (\n"),
        Generation(text="nothing", finish="length"),
    ]
    found = counted(answers, set(kernel_hashes(KERNEL)))
    assert found == {
        "answers": 4,
        "ended": 3,
        "with_code": 3,
        "valid_python": 2,
        "with_kernel": 2,
        "kernels": 2,
        "new_kernels": 1,
        "distinct_new_kernels": 1,
    }
