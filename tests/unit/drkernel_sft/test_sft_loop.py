"""A tiny model learns a tiny set; killed runs go on with the same bits."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from tiny_policy import make_folder, write_conversations

from drkernel.cli.main import main
from drkernel.sft import loop
from drkernel.sft.loop import run_sft, train_step
from drkernel.sft.settings import DataSettings, SftSettings
from drkernel.tracking import read_metrics
from drkernel.train.checkpoint import Checkpoints
from drkernel.train.models import ModelSettings
from drkernel.train.optimizer import OptimizerSettings
from kernelgym.errors import UsageError


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sft")
    make_folder(folder / "model")
    write_conversations(folder / "data.jsonl", 12)
    return folder


def settings_of(world, **changes):
    values = {
        "model": ModelSettings(path=str(world / "model"), compute="fp32", device="cpu"),
        "data": DataSettings(
            files=(str(world / "data.jsonl"),),
            group_column="task",
            eval_share=0.4,
            max_tokens=128,
        ),
        "optimizer": OptimizerSettings(lr=3e-3, schedule="cosine", warmup_steps=2),
        "batch_rows": 4,
        "epochs": 3,
        "micro_tokens": 160,
        "eval_every": 2,
        "checkpoint_every": 2,
    }
    return SftSettings(**(values | changes))


def weights_of(out):
    return load_file(Checkpoints(out / "checkpoints").latest().model / "model.safetensors")


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def test_the_command_says_how_far_it_is(world, tmp_path, capsys):
    (tmp_path / "mine.json").write_text(settings_of(world, epochs=1).model_dump_json())
    command = ["sft", "-c", str(tmp_path / "mine.json"), "--out", str(tmp_path / "run")]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["finished"] and told["step"] == told["steps"] > 1
    assert told["best"]["loss"] > 0
    assert main(command) == 0  # again: nothing is left to do
    assert f"{told['step']} of {told['steps']} steps; lowest" in capsys.readouterr().out


def test_a_tiny_set_is_learned_by_heart(world, tmp_path):
    data = write_conversations(tmp_path / "four.jsonl", 4, turns=1)
    settings = settings_of(
        world,
        data=DataSettings(files=(str(data),), eval_share=0, max_tokens=128),
        epochs=160,
        batch_rows=16,
        micro_tokens=512,
        checkpoint_every=1000,
        optimizer=OptimizerSettings(lr=1e-2, beta2=0.95),
    )
    run = run_sft(settings, tmp_path / "run")
    metrics = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert run.finished and len(metrics) == run.steps
    assert metrics[0]["sft/loss"] > 4
    assert metrics[-1]["sft/loss"] < 0.05


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_loss_and_update_do_not_depend_on_how_rows_share_passes(world, tmp_path, layout):
    plain = run_sft(settings_of(world, max_steps=2, micro_tokens=128), tmp_path / "plain")
    other = run_sft(
        settings_of(world, max_steps=2, micro_tokens=4000, layout=layout), tmp_path / "other"
    )
    losses = [
        [line["sft/loss"] for line in read_metrics(tmp_path / name / "metrics.jsonl")]
        for name in ("plain", "other")
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    for left, right in zip(
        plain.loaded.model.parameters(), other.loaded.model.parameters(), strict=True
    ):
        assert torch.allclose(left, right, atol=1e-4)


def test_a_continued_run_ends_with_the_same_bits(world, tmp_path):
    whole = run_sft(settings_of(world), tmp_path / "whole")
    assert whole.steps > 5
    # out of time after every single step
    for _ in range(whole.steps):
        run = run_sft(settings_of(world, minutes=1e-9), tmp_path / "parts")
    assert run.finished
    assert same(weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts"))
    lines = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("whole", "parts")]
    for left, right in zip(*lines, strict=True):
        timed = {"time", "time/step_s", "speed/tokens_per_s"}
        assert {k: v for k, v in left.items() if k not in timed} == {
            k: v for k, v in right.items() if k not in timed
        }


def test_killed_at_a_step_it_goes_on_from_the_checkpoint(world, tmp_path):
    script = Path(__file__).with_name("sft_process.py")
    given = tmp_path / "settings.json"
    given.write_text(json.dumps(settings_of(world).model_dump(mode="json")))
    run_sft(settings_of(world), tmp_path / "whole")
    command = [sys.executable, script, given, tmp_path / "killed", "3:before", "5:after"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.splitlines() == ["3:before killed", "5:after killed"], done.stderr
    run_sft(settings_of(world), tmp_path / "killed")
    assert same(weights_of(tmp_path / "whole"), weights_of(tmp_path / "killed"))
    steps = [line["step"] for line in read_metrics(tmp_path / "killed" / "metrics.jsonl")]
    assert steps == list(range(1, len(steps) + 1))
    assert not list((tmp_path / "killed" / "checkpoints").glob(".draft*"))


def test_a_folder_belongs_to_one_configuration(world, tmp_path):
    run_sft(settings_of(world, max_steps=1), tmp_path / "run")
    with pytest.raises(UsageError, match="another configuration"):
        run_sft(settings_of(world, max_steps=2), tmp_path / "run")


def test_the_best_checkpoint_stays(world, tmp_path):
    run = run_sft(settings_of(world, keep=1, epochs=4, eval_every=1), tmp_path / "run")
    steps = {checkpoint.step for checkpoint in Checkpoints(tmp_path / "run/checkpoints").all()}
    assert steps == {run.steps, run.best["step"]}
    losses = [line["eval/loss"] for line in read_metrics(tmp_path / "run/metrics.jsonl")]
    assert min(losses) == run.best["loss"]


def test_bf16_computes_in_bf16_and_keeps_weights_in_float32(world, tmp_path):
    model = ModelSettings(path=str(world / "model"), compute="bf16", device="cpu")
    run = run_sft(settings_of(world, model=model, max_steps=1), tmp_path / "half")
    run_sft(settings_of(world, max_steps=1), tmp_path / "full")
    half, full = (
        read_metrics(tmp_path / name / "metrics.jsonl")[0]["sft/loss"] for name in ("half", "full")
    )
    assert half != full and half == pytest.approx(full, rel=0.02)
    assert {p.dtype for p in run.loaded.model.parameters()} == {torch.float32}


def test_without_weights_the_error_says_how_to_get_them(world, tmp_path):
    with pytest.raises(UsageError, match="weights are never downloaded") as caught:
        run_sft(
            settings_of(world, model=ModelSettings(path=str(tmp_path / "nothing"))),
            tmp_path / "run",
        )
    assert "hf download" in caught.value.hint
    assert os.listdir(tmp_path / "run")  # the configuration is there to be looked at


def test_a_run_ends_with_its_time_and_its_rate_falls_with_it(world, tmp_path, monkeypatch):
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(seconds), perf_counter=lambda: 0.0)
    monkeypatch.setattr(loop, "time", clock)
    settings = settings_of(world, epochs=1000, budget_minutes=0.25, eval_every=0)
    run = run_sft(settings, tmp_path / "run")
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert run.finished and 0 < run.step < run.steps and run.share_spent >= 1
    assert [line["step"] for line in lines if "eval/loss" in line] == [run.step]  # the last one
    rates = [line["optimizer/lr"] for line in lines]
    assert rates[-1] < 0.5 * max(rates)
    assert Checkpoints(tmp_path / "run" / "checkpoints").latest().step == run.step
    again = run_sft(settings, tmp_path / "run")
    assert again.step == run.step  # its time is over


def test_sigterm_ends_it_with_a_checkpoint(world, tmp_path, monkeypatch):
    steps = []

    def interrupted(run, rows):
        steps.append(run.step)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(run, rows)

    monkeypatch.setattr(loop, "train_step", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    run = run_sft(settings_of(world, checkpoint_every=100, eval_every=0), tmp_path / "run")
    assert run.step == 2 and not run.finished
    assert Checkpoints(tmp_path / "run" / "checkpoints").latest().step == 2
    assert signal.getsignal(signal.SIGTERM) == before
