"""Recipes load, and fail early where weights, tasks or a GPU are missing; every flag is read."""

import json
from pathlib import Path

import pytest
from rl_world import settings_of, tasks
from tiny_policy import make_folder

from drkernel.cli.main import main
from drkernel.config import load
from drkernel.nano.settings import NanoSettings
from drkernel.policy import PolicySettings
from drkernel.rollout.settings import EpisodeSettings, SamplingSettings
from drkernel.rollout.tasks import TaskSettings
from drkernel.sft.settings import SftSettings
from drkernel.train import models
from drkernel.train.preflight import preflight
from drkernel.train.problems import Problems, training_tasks, validation_tasks
from drkernel.train.settings import AlgorithmSettings, ProblemSettings, TrainSettings
from kernelgym.errors import ServiceError, UsageError
from kernelgym.schema import Task

REFERENCE = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * {}


def get_inputs():
    return [torch.rand(4)]
"""
CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("recipes"))


@pytest.fixture
def task_file(tmp_path):
    path = tmp_path / "tasks.jsonl"
    stored = [Task(name=f"t{n}", reference=REFERENCE.format(n)) for n in range(6)]
    path.write_text("".join(task.model_dump_json() + "\n" for task in stored))
    return path


def problems(task_file, **changes):
    source = TaskSettings(source=(str(task_file),))
    return ProblemSettings(train=source, **changes)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("rl/*.toml")), ids=lambda path: path.stem)
def test_rl_recipes_fail_early_without_weights(path, tmp_path, capsys):
    settings = load(TrainSettings, [path])
    assert settings.algorithm.estimator == "trloo" and settings.episode.turns == 3
    code = main(["train", "-c", str(path), "--out", str(tmp_path / "run"), "--model.path", "no"])
    said = capsys.readouterr().err
    assert code == 2 and "there is no model in no" in said and "hf download" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("sft/*.toml")), ids=lambda path: path.stem)
def test_sft_recipes(path, tmp_path, capsys):
    settings = load(SftSettings, [path])
    assert (settings.optimizer.lr, settings.batch_rows, settings.epochs) in (
        (1e-6, 256, 4),
        (2e-5, 64, 4),
    )
    assert main(["sft", "-c", str(path), "--out", str(tmp_path), "--model.path", "no"]) == 2
    assert "weights are never downloaded" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["triton", "numba"])
def test_nano_recipes(name):
    settings = load(NanoSettings, [CONFIGS / "nano" / f"{name}.toml"])
    assert settings.backend == name


def test_the_paper_is_the_default():
    rule = TrainSettings().algorithm
    assert (rule.prompts, rule.rollouts, rule.gamma) == (16, 16, 1.0)
    assert (rule.mrs_low, rule.mrs_high, rule.mrs_veto) == (0.999, 1.001, 1e-4)
    assert (rule.prs_tau, rule.prs_softness) == (0.3, 0.1)
    assert TrainSettings().optimizer.lr == 1e-6 and TrainSettings().steps == 300


def test_check_says_what_is_there(folder, task_file, tmp_path, capsys):
    given = ["--model.path", str(folder), "--tasks.train.source", str(task_file)]
    given += ["--tasks.train.split", "any", "--eval-every", "0", "--algorithm.prompts", "2"]
    code = main(["train", "--out", str(tmp_path / "run"), *given, "--check"])
    said = capsys.readouterr()
    assert code == 0, said.err
    assert "6 tasks to train on" in said.out and "0.0M parameters" in said.out
    assert main(["train", "--out", str(tmp_path / "run"), *given, "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["training_tasks"] == 6
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episode": EpisodeSettings(sampling=SamplingSettings(top_p=0.9))}, "whole distribution"),
        ({"episode": EpisodeSettings(sampling=SamplingSettings(temperature=0))}, "whole distrib"),
        ({"policy": PolicySettings(name="teacher")}, "cannot be trained"),
        ({"policy": PolicySettings(name="openai:m")}, "token ids"),
        ({"algorithm": AlgorithmSettings(prompts=9)}, "6 tasks are fewer than the 9 prompts"),
    ],
)
def test_what_contradicts_itself_is_refused(folder, task_file, changes, message):
    settings = settings_of(folder, tasks=problems(task_file), eval_every=0)
    assert len(preflight(settings).tasks) == 6
    with pytest.raises(UsageError, match=message):
        preflight(settings.model_copy(update=changes))


def test_values_are_checked_once_recipes_and_flags_are_together(tmp_path):
    with pytest.raises(UsageError, match="did you mean trloo"):
        load(TrainSettings, [], TrainSettings.model_validate({"algorithm": {"estimator": "trlo"}}))
    flags = NanoSettings.model_validate({"attempts": {"easiest": 5}})
    with pytest.raises(UsageError, match="easiest 5 is harder"):
        load(NanoSettings, [], flags)
    (tmp_path / "more.toml").write_text("[attempts]\nhardest = 6\n")
    assert load(NanoSettings, [tmp_path / "more.toml"], flags).attempts.easiest == 5


def test_a_gpu_that_is_not_there(folder, task_file):
    settings = settings_of(folder, tasks=problems(task_file), eval_every=0)
    model = settings.model.model_copy(update={"device": "cuda:0"})
    if models.device_of("auto").type == "cuda":
        pytest.skip("there is a GPU")
    with pytest.raises(ServiceError, match="no GPU"):
        preflight(settings.model_copy(update={"model": model}))


def test_validation_tasks_are_not_trained_on(task_file):
    settings = problems(task_file)
    train = training_tasks(settings)
    with pytest.raises(UsageError, match="6 validation tasks are trained on"):
        validation_tasks(settings, train)
    with pytest.raises(UsageError, match="no tasks to train on"):
        training_tasks(ProblemSettings())


def drawn(source, steps, count=3):
    return [[task.name for task in source.draw(count, step=step)] for step in range(steps)]


def test_every_task_comes_once_a_pass_in_an_order_of_its_own():
    source = Problems(tasks(6), ProblemSettings(), seed=1)
    steps = drawn(source, 4)
    first, second = steps[0] + steps[1], steps[2] + steps[3]
    assert sorted(first) == sorted(second) == sorted(source.tasks)
    assert first != second
    assert drawn(Problems(tasks(6), ProblemSettings(), seed=2), 2) != steps[:2]


@pytest.mark.parametrize("curriculum", ["uniform", "easy_to_hard", "running"])
def test_a_restored_source_goes_on(curriculum):
    settings = ProblemSettings(curriculum=curriculum, curriculum_steps=4)

    def record(source, names):
        for name in names:
            source.record(name, [0.0, float(name[-1])], [False, name[-1] > "2"])

    whole = Problems(tasks(8), settings, seed=1)
    expected = []
    for step in range(6):
        expected.append([task.name for task in whole.draw(3, step=step)])
        record(whole, expected[-1])
        if step == 2:
            state = whole.state()
    other = Problems(tasks(8), settings, seed=1)
    other.restore(state)
    for step in range(3, 6):
        names = [task.name for task in other.draw(3, step=step)]
        record(other, names)
        assert names == expected[step]


def test_a_step_never_gets_a_task_twice():
    source = Problems(tasks(5), ProblemSettings(), seed=0)
    for step in range(8):
        first = [task.name for task in source.draw(3, step=step)]
        more = [task.name for task in source.draw(3, step=step, round_=1, without=first)]
        assert len(set(first + more)) == len(first + more) == 5
