"""The report on training runs, of real small ones: arms, seeds, claims, figures, and what is said
where something is missing."""

import asyncio
import json

import numpy as np
import pytest
from rl_world import EPISODE, CountingJudge, make_run, settings_of, tasks

from drkernel.algo import PairedDifference
from drkernel.algo.intervals import Interval
from drkernel.cli.main import main
from drkernel.collect.policies import AnyPolicySettings
from drkernel.evaluate.settings import EvalSettings
from drkernel.miniature.claims import Seen
from drkernel.miniature.curves import Curve, curve_of, late, trend
from drkernel.miniature.runs import arm_of, read_experiment
from drkernel.miniature.writing import write_miniature
from drkernel.policy import TransformersSettings, open_policy
from drkernel.rollout import engine
from drkernel.rollout.directory import RunDirectory
from drkernel.rollout.log import EpisodeLog
from drkernel.train.annotations import credit_file, read_credit
from drkernel.train.checkpoint import Checkpoints
from drkernel.train.loop import train
from drkernel.train.run_folder import claimed
from drkernel.train.settings import AlgorithmSettings, TrainSettings
from kernelgym.errors import UsageError

PLAIN = EPISODE.model_copy(
    update={"reward": EPISODE.reward.model_copy(update={"rule": "paper_without_profiling"})}
)


def trained(model, out, seed=0, **algorithm):
    """A run of ``drkernel train`` in ``out``, with a judge that counts."""
    rule = AlgorithmSettings(prompts=2, rollouts=4, mrs=False, prs=False, **algorithm)
    settings = settings_of(model, algorithm=rule, episode=PLAIN, steps=4, seed=seed)

    async def go():
        with claimed(out, settings, "train"):
            run = make_run(settings, out)
            await train(run)
            await run.policy.aclose()

    asyncio.run(go())
    return out


def evaluated(model, out):
    """A run of ``drkernel eval`` in ``out``, of a policy in a folder."""
    policy = AnyPolicySettings(
        name=f"transformers:{model}",
        transformers=TransformersSettings(device="cpu", dtype="float32"),
    )
    settings = EvalSettings(policy=policy, episode=PLAIN, samples=2)
    run = RunDirectory(out, settings, "eval", resume=False)
    held = tasks(5)
    run.store_tasks(held)

    async def go():
        opened = open_policy(policy)
        with EpisodeLog(run.episodes) as log:
            episodes = engine.run(held, opened, CountingJudge(), PLAIN, samples=2, log=log)
            assert len([episode async for episode in episodes]) == 10
        await opened.aclose()

    asyncio.run(go())
    return out


@pytest.fixture(scope="module")
def runs(model, tmp_path_factory):
    """Two arms, one of them with two seeds; the cold start and one checkpoint measured."""
    folder = tmp_path_factory.mktemp("arms")
    found = {
        "trloo-0": trained(model, folder / "trloo-0"),
        "trloo-1": trained(model, folder / "trloo-1", seed=1),
        "unchecked-0": trained(model, folder / "unchecked-0", hack_check=False),
    }
    best = Checkpoints(found["trloo-0"] / "checkpoints").latest()
    found["cold"] = evaluated(model, folder / "cold")
    found["held"] = evaluated(best.model, folder / "held")
    return found


def test_arms_seeds_and_measurements_are_told_apart(runs):
    experiment = read_experiment(list(runs.values()))
    assert experiment.arms == ["TRLOO, no hack check", "TRLOO"]
    assert [run.seed for run in experiment.of("TRLOO")] == [0, 1]
    assert {run.device for run in experiment.trained} == {"cpu"}
    assert [(one.arm, one.step) for one in experiment.evaluations] == [
        ("cold start", None),
        ("TRLOO", 4),
    ]
    curve = curve_of(experiment.of("TRLOO"), "reward/mean")
    assert curve.steps_N == (1, 2, 3, 4) and curve.values_SN.shape == (2, 4)
    assert set(experiment.of("TRLOO")[0].scores) == {0, 2, 4}
    honest = curve_of(experiment.of("TRLOO"), "fast@1/last_turn/honest")
    assert honest.values_SN == pytest.approx(
        curve_of(experiment.of("TRLOO"), "fast@1/last_turn").values_SN
    )  # nothing that the judge rejects is paid here


def test_the_report_says_what_is_seen_and_what_is_missing(runs, tmp_path, capsys):
    folders = [str(path) for path in runs.values()]
    assert main(["report", *folders, "--out", str(tmp_path / "report")]) == 0
    said = capsys.readouterr().out
    assert "no held-out evaluation of: TRLOO, no hack check" in said
    numbers = json.loads((tmp_path / "report" / "miniature.json").read_text())
    hacks = numbers["claims"][0]
    assert hacks["interval"] is not None and hacks["verdict"] in (
        "agrees", "disagrees", "cannot tell",
    )  # fmt: skip
    assert {one["verdict"] for one in numbers["claims"] if one["why_not"]} == {"cannot tell"}
    assert [run["validated_checkpoints"] for run in numbers["runs"]] == [3, 3, 3]
    assert [run["held_out_evaluations"] for run in numbers["runs"]] == [0, 1, 0]
    names = {path.stem for path in (tmp_path / "report" / "figures").glob("*.csv")}
    assert names == {
        "fig2_hack_tradeoff", "fig4_methods", "fig4_turns", "fig5_fast_and_entropy",
        "fig7_stability", "fig8_hack_ratio",
    }  # fmt: skip
    page = (tmp_path / "report" / "report.html").read_text()
    assert page.count("<svg") == 6 and "cannot tell" in page


def test_a_second_look_at_the_held_out_tasks_is_told(runs, model, tmp_path):
    again = evaluated(
        Checkpoints(runs["trloo-0"] / "checkpoints").all()[-1].model, tmp_path / "again"
    )
    experiment = read_experiment([*runs.values(), again])
    write_miniature(experiment, tmp_path / "report")
    assert "held-out tasks were looked at 2 times" in (tmp_path / "report/report.html").read_text()


def test_runs_that_do_not_belong_are_refused(runs, model, tmp_path):
    with pytest.raises(UsageError, match="neither a checkpoint"):
        read_experiment([runs["unchecked-0"], runs["held"]])
    with pytest.raises(UsageError, match="both TRLOO with seed 0"):
        read_experiment([runs["trloo-0"], trained(model, tmp_path / "twin")])
    assert main(["report", str(runs["trloo-0"]), str(runs["trloo-1"])]) == 2
    assert main(["report", str(runs["cold"]), str(runs["held"])]) == 2


def test_an_episode_of_a_step_shows_what_it_was_worth(runs, capsys):
    run = runs["trloo-0"]
    worth = read_credit(credit_file(run, 2))
    groups = {}
    for (episode, turn), one in worth.items():
        assert one.kept and one.dropped_by == ()
        groups.setdefault((episode.partition("#")[0], turn), []).append(one.advantage)
    assert len(groups) == 4 and all(sum(group) == pytest.approx(0) for group in groups.values())
    (name, _), first = next(iter(worth.items()))
    assert main(["inspect", str(run), name, "--step", "2", "--turn", "1"]) == 0
    assert f"--- in training: return {first.group_return:.3f}" in capsys.readouterr().out
    assert main(["inspect", str(run)]) == 0  # the last step
    assert capsys.readouterr().out.count("#") == 8
    assert main(["inspect", str(run), "--step", "9"]) == 2
    assert "--step 1 to 4" in capsys.readouterr().err
    assert main(["inspect", str(runs["cold"]), "--step", "1"]) == 2


def test_names_of_arms():
    full = TrainSettings()
    for changes, name in (
        ({}, "TRLOO + MRS + PR + PRS"),
        ({"prs": False}, "TRLOO + MRS + PR"),
        ({"estimator": "grpo", "mrs": False}, "GRPO + PR + PRS"),
        ({"hack_check": False}, "TRLOO + MRS + PR + PRS, no hack check"),
    ):
        rule = full.algorithm.model_copy(update=changes)
        assert arm_of(full.model_copy(update={"algorithm": rule})) == name
    plain = full.episode.model_copy(
        update={"reward": full.episode.reward.model_copy(update={"rule": "gated"})}
    )
    assert arm_of(full.model_copy(update={"episode": plain})) == "TRLOO + MRS + PRS"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.1, 0.3, "agrees"), (-0.3, -0.1, "disagrees"), (-0.1, 0.3, "cannot tell")],
)
def test_verdicts_follow_from_the_interval(low, high, verdict):
    found = PairedDifference((low + high) / 2, Interval(low, high), 0.5, 9)
    assert Seen("", "", found).verdict == verdict


def test_trends():
    steps = tuple(range(20))
    noise = np.random.default_rng(0).normal(0, 0.01, 20)

    def of(slope):
        return Curve(steps, (slope * np.arange(20) + noise)[None])

    assert [trend(of(slope)) for slope in (0.05, 0.0, -0.05)] == ["rising", "level", "falling"]
    assert trend(Curve((1, 2), np.zeros((1, 2)))) == "too short"
    gaps = Curve((1, 2, 3), np.array([[np.nan, 1.0, np.nan], [np.nan, 3.0, 5.0]]))
    assert late(gaps, 1.0) == {2: 2.0, 3: 5.0}
    low, high = gaps.band_N()
    assert np.isnan(low[0]) and (low[1], high[1]) == (1.0, 3.0)
