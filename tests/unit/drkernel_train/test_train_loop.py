"""The whole loop on a tiny model: it learns, it resumes with the same bits, it survives kills."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from rl_world import EPISODE, CountingJudge, make_run, settings_of
from safetensors.torch import load_file

from drkernel.policy import PolicySettings, TransformersSettings
from drkernel.tracking import read_metrics
from drkernel.train import playing
from drkernel.train.checkpoint import Checkpoints
from drkernel.train.loop import train
from drkernel.train.optimizer import OptimizerSettings
from drkernel.train.run_state import push
from drkernel.train.settings import AlgorithmSettings
from drkernel.train.trajectories import rollouts_of

ONE_BY_ONE = PolicySettings(
    name="transformers",
    transformers=TransformersSettings(device="cpu", dtype="float32", batch=1),
)
"""Answers that do not depend on who else is asking: with them a run repeats to the bit."""


def play(run):
    async def go():
        await train(run)
        await run.policy.aclose()

    asyncio.run(go())
    return run


def weights_of(out):
    return load_file(Checkpoints(out / "checkpoints").latest().model / "model.safetensors")


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def untimed(lines):
    return [
        {
            k: v
            for k, v in line.items()
            if not k.startswith(("time", "speed", "validation/time", "validation/speed"))
        }
        for line in lines
    ]


def different(left, right):
    """Step, name and both values of what two runs noted differently, times apart."""
    assert len(left) == len(right)
    return [
        (one["step"], name, one.get(name), other.get(name))
        for one, other in zip(untimed(left), untimed(right), strict=True)
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]


def test_reward_rises(model, tmp_path):
    settings = settings_of(
        model,
        steps=16,
        eval_every=16,
        checkpoint_every=100,
        algorithm=AlgorithmSettings(prompts=4, rollouts=8, prs=False),
        optimizer=OptimizerSettings(lr=1e-3),
    )
    run = play(make_run(settings, tmp_path / "run"))
    metrics = read_metrics(tmp_path / "run" / "metrics.jsonl")
    rewards = [line["reward/mean"] for line in metrics if line["step"]]
    assert np.mean(rewards[-4:]) > np.mean(rewards[:4]) + 0.3
    validation = {line["step"]: line.get("validation/score") for line in metrics}
    assert validation[16] > validation[0]
    assert run.best == 16 and run.scores == {0: validation[0], 16: validation[16]}


def test_sampler_and_trainer_agree(model, tmp_path):
    run = make_run(settings_of(model), tmp_path / "run")
    with torch.no_grad():  # other weights than those of the folder: they must be pushed
        for parameter in run.learner.loaded.model.parameters():
            parameter.mul_(1.05)

    async def go():
        await push(run, 1)
        episodes = await playing.play_step(run, 1)
        await run.policy.aclose()
        return episodes

    rollouts = rollouts_of(asyncio.run(go()), turns=2, gamma=1.0)
    scores = run.learner.score([turn.row for turn in rollouts.rows])
    gap = np.abs(scores.logp - rollouts.logp_rollout())[rollouts.mask()]
    assert gap.size > 100 and gap.max() < 1e-5


def test_a_continued_run_ends_with_the_same_bits(model, tmp_path):
    settings = settings_of(model, policy=ONE_BY_ONE)
    play(make_run(settings, tmp_path / "whole"))
    for _ in range(settings.steps + 1):  # the last step's validation is cut off, too
        run = make_run(settings, tmp_path / "parts")
        done = run.checkpoints.latest()
        stop_after(run, (done.step if done else 0) + 1)
        play(run)
    assert run.finished
    assert same(weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts"))
    lines = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("whole", "parts")]
    assert not different(*lines)


def stop_after(run, step):
    real = run.learner.update

    def update(*arguments, **options):
        if options["step"] == step:
            run.stop.set()
        return real(*arguments, **options)

    run.learner.update = update


def test_killed_in_any_phase_it_ends_with_the_same_bits(model, tmp_path):
    settings = settings_of(model, policy=ONE_BY_ONE)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the other process: sums depend on how they are split
    try:
        play(make_run(settings, tmp_path / "whole"))
    finally:
        torch.set_num_threads(threads)
    assert not same(weights_of(tmp_path / "whole"), load_file(model / "model.safetensors"))
    given = tmp_path / "settings.json"
    given.write_text(json.dumps(settings.model_dump(mode="json")))
    phases = ["validate:0", "rollout:1", "score:1", "update:1", "save:1", "push:2"]
    phases += ["rename:2", "validate:2", "end"]
    script = Path(__file__).with_name("rl_process.py")
    command = [sys.executable, script, given, tmp_path / "killed", *phases]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    said = done.stdout.splitlines()
    assert said == [*(f"{phase} killed" for phase in phases[:-1]), "end ended"], done.stderr
    assert same(weights_of(tmp_path / "whole"), weights_of(tmp_path / "killed"))
    lines = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("whole", "killed")]
    assert not different(*lines)
    # nothing that had been played was played again
    judged = (tmp_path / "killed" / "judged.txt").read_text().splitlines()
    assert len(judged) <= len(set(judged)) + len(phases)


def test_no_step_is_taken_when_nothing_survives(model, tmp_path):
    rule = AlgorithmSettings(prompts=2, rollouts=4, prs=False, mrs_veto=0.999999)
    settings = settings_of(model, steps=1, algorithm=rule, eval_every=0)
    run = make_run(settings, tmp_path / "run")
    before = {k: v.clone() for k, v in run.learner.loaded.model.state_dict().items()}
    spoil_logprobs(run)
    play(run)
    line = read_metrics(tmp_path / "run" / "metrics.jsonl")[0]
    assert line["filter/kept"] == 0 and line["algorithm/steps_taken"] == 0
    assert line["mrs/would_keep"] == 0
    assert same(before, run.learner.loaded.model.state_dict())
    assert run.learner.optimizer.taken == 0


def spoil_logprobs(run):
    """The sampler claims other probabilities than it drew from."""
    real = run.policy.generate

    async def generate(*arguments, **options):
        said = await real(*arguments, **options)
        return said.model_copy(update={"logprobs": tuple(p + 0.5 for p in said.logprobs)})

    run.policy.generate = generate


def test_dynamic_sampling_draws_others_in_place_of_flat_groups(model, tmp_path):
    class Flat(CountingJudge):
        """Only tasks with an even number have something to learn."""

        async def evaluate(self, submission, *, key="", force=False):
            even = int(submission.task.name[-1]) % 2 == 0
            source = submission.source if even else "n = 1"
            return await super().evaluate(submission.model_copy(update={"source": source}))

    episodes = {}
    for dynamic in (False, True):
        rule = AlgorithmSettings(
            prompts=3, rollouts=4, prs=False, dynamic_sampling=dynamic, dynamic_rounds=4
        )
        run = make_run(settings_of(model, algorithm=rule), tmp_path / str(dynamic), Flat())

        async def go(run=run):
            found = await playing.play_step(run, 1)
            await run.policy.aclose()
            return found

        episodes[dynamic] = asyncio.run(go())
    assert all(len(found) == 12 for found in episodes.values())
    odd = {
        name: sum(int(episode.task[-1]) % 2 for episode in found)
        for name, found in episodes.items()
    }
    assert odd[False] > 0 and odd[True] == 0


def test_context_budget_makes_groups_smaller(model, tmp_path):
    budget = EPISODE.budget.model_copy(update={"context_tokens": 110})
    episode = EPISODE.model_copy(update={"budget": budget})
    settings = settings_of(model, steps=1, episode=episode, eval_every=0)
    play(make_run(settings, tmp_path / "run"))
    line = read_metrics(tmp_path / "run" / "metrics.jsonl")[0]
    assert line["valid/turn_1"] == 1 and 0 <= line["valid/turn_2"] < 1
    assert line["stopped/context"] > 0
