"""Every expected value of ``oracles/``, in every form a caller may hand over."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from algo_forms import EXACT_FORMS, FORMS, load, plain

from drkernel import algo

ADVANTAGES = load("returns_advantages")
REWARD = load("reward")
MISMATCH = load("mismatch")
PROFILING = load("profiling")
LOSS = load("loss")
METRICS = load("metrics")


def close(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(plain(actual), np.asarray(expected, float), rtol=0, atol=tolerance)


@pytest.mark.parametrize("case", REWARD["cases"], ids=str)
def test_turn_reward(case):
    arguments = case["correct"], case["speedup"], case["coverage"]
    rewards = {
        "with_coverage": algo.turn_reward(*arguments),
        "without_coverage": algo.turn_reward(*arguments, use_coverage=False),
        "released_code": algo.turn_reward(*arguments, weights=(0.5, 0.5, 0.5)),
    }
    for name, reward in rewards.items():
        assert type(reward) is float
        assert reward == pytest.approx(case[name], abs=REWARD["tolerance"])


@pytest.mark.parametrize("form", ["list", "object", "numpy64", "torch64"])
def test_turn_reward_of_arrays(form):
    cases = REWARD["cases"]
    columns = {name: [case[name] for case in cases] for name in ("correct", "speedup", "coverage")}
    if form == "object":
        columns = {name: np.array(values, dtype=object) for name, values in columns.items()}
    elif form != "list":
        columns = {name: FORMS[form](np.array(values, float)) for name, values in columns.items()}
    reward = algo.turn_reward(**columns)
    close(reward, [case["with_coverage"] for case in cases])
    assert isinstance(reward, torch.Tensor) == (form == "torch64")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", ADVANTAGES["cases"], ids=lambda case: case["name"])
def test_returns_and_advantages(case, form):
    # the narrow forms are judged against the exact ones in test_algo_properties
    tolerance = ADVANTAGES["tolerance"] if form in EXACT_FORMS else 0.05
    rewards, group, valid = FORMS[form](case["rewards"]), case["group"], case["valid"]
    returns = algo.returns_to_go(rewards, valid, case["gamma"])
    close(returns, case["returns"], tolerance)
    close(algo.trloo(returns, group, valid), case["trloo_raw"], tolerance)
    close(algo.trloo(returns, group, valid, singleton="zero"), case["trloo_zero"], tolerance)
    close(algo.grpo(returns, group, valid), case["grpo"], tolerance)
    close(algo.grpo(returns, group, valid, normalize=True), case["grpo_normalized"], tolerance)


@pytest.mark.parametrize("case", ADVANTAGES["scalar"], ids=lambda case: f"n{case['n']}")
def test_one_turn_groups(case):
    returns = np.array(case["returns"], float)[:, None]
    group, valid = ["prompt"] * case["n"], np.ones((case["n"], 1), bool)
    measured = {
        "trloo": algo.trloo(returns, group, valid)[:, 0],
        "grpo": algo.grpo(returns, group, valid)[:, 0],
    }
    for name, values in measured.items():
        if name in case:
            close(values, case[name], 1e-9)
        else:
            close(values[0], case[f"{name}_first"], 1e-9)
            close(values[1:], [case.get(f"{name}_rest", values[1])] * (case["n"] - 1), 1e-9)


def log_ratio_row(kind):
    if kind["spike"] is None:
        return np.full(kind["tokens"], kind["mean"])
    row = np.full(kind["tokens"], -kind["spike"] / (kind["tokens"] - 1))
    row[0] = kind["spike"]
    return row


@pytest.mark.parametrize("form", EXACT_FORMS)
@pytest.mark.parametrize("case", MISMATCH["cases"], ids=lambda case: case["name"])
def test_mismatch(case, form):
    row = log_ratio_row(case["kind"])[None, :]
    keep, w = algo.mismatch_keep(FORMS[form](row), FORMS[form](0 * row), np.ones_like(row))
    assert bool(keep[0]) is case["keep"]
    close(w, [case["w"]], 1e-12)


@pytest.mark.parametrize("form", EXACT_FORMS)
def test_mismatch_pooled_over_a_trajectory(form):
    expected = MISMATCH["pooled"]
    train, mask = np.zeros((2, 900)), np.zeros((2, 900))
    train[0, :100], mask[0, :100] = 0.005, 1
    train[1], mask[1] = -0.0005, 1
    arguments = FORMS[form](train), FORMS[form](np.zeros((2, 900))), FORMS[form](mask)
    keep, w = algo.mismatch_keep(*arguments)
    assert keep.tolist() == expected["turn_level"]
    close(w, expected["w_turn"], 1e-12)
    keep, w = algo.mismatch_keep(*arguments, level="trajectory", trajectory=["a", "a"])
    assert keep.tolist() == expected["trajectory_level"]
    close(w, [expected["w_trajectory"]] * 2, 1e-12)
    spiked = train.copy()
    spiked[0, 0], spiked[0, 1] = -9.3, 0.005 + 0.005 + 9.3
    keep, w = algo.mismatch_keep(
        FORMS[form](spiked), *arguments[1:], level="trajectory", trajectory=[7, 7]
    )
    assert keep.tolist() == expected["veto_token_in_first_turn_same_mean_trajectory_level"]
    close(w, [expected["w_trajectory"]] * 2, 1e-12)


@pytest.mark.parametrize("form", EXACT_FORMS)
def test_profiling(form):
    rule = {"tau": PROFILING["tau"], "softness": PROFILING["softness"]}
    coverage = FORMS[form]([case["coverage"] for case in PROFILING["cases"]])
    correct = [1] * len(PROFILING["cases"])
    p = algo.profiling_keep_probability(coverage, correct, **rule)
    close(p, [case["p"] for case in PROFILING["cases"]], PROFILING["tolerance"])
    hard = FORMS[form]([case["coverage"] for case in PROFILING["hard"]])
    p = algo.profiling_keep_probability(hard, [1] * 3, tau=PROFILING["tau"], softness=0.0)
    close(p, [case["p"] for case in PROFILING["hard"]])
    for kept, name in ((True, "keep_incorrect_true"), (False, "keep_incorrect_false")):
        p = algo.profiling_keep_probability(hard, [0] * 3, keep_incorrect=kept)
        close(p, [PROFILING["incorrect"][name]] * 3)


@pytest.mark.parametrize("form", EXACT_FORMS)
@pytest.mark.parametrize("case", LOSS["cases"], ids=str)
def test_token_loss(case, form):
    logp = FORMS[form]([[math.log(case["ratio"])]])
    old, advantage, mask = FORMS[form]([[0.0]]), FORMS[form]([case["advantage"]]), [[1]]
    close(algo.policy_loss(logp, old, advantage, mask)[0], case["loss"])


def test_aggregate():
    case = LOSS["aggregate"]
    mask = np.arange(max(case["lengths"]))[None, :] < np.array(case["lengths"])[:, None]
    logp = np.full(mask.shape, math.log(case["ratio"]))
    loss, _ = algo.policy_loss(
        logp, 0 * logp, case["advantages"], mask, aggregate="seq_mean_token_sum"
    )
    close(loss, case["seq_mean_token_sum"])


@pytest.mark.parametrize("form", ["list", "object", "numpy64", "torch64", "torch32"])
def test_fast_at_p(form):
    speedups = METRICS["speedups"]
    if form == "object":
        speedups = np.array(speedups, dtype=object)
    elif form != "list":
        speedups = FORMS[form](np.array(speedups, dtype=float))
    for turn, expected in enumerate(METRICS["per_turn"]):
        for p, value in expected.items():
            assert algo.fast_at_p(speedups, float(p), turn=turn) == pytest.approx(value)
    for turn, expected in enumerate(METRICS["best_up_to"]):
        for p, value in expected.items():
            assert algo.fast_at_p(speedups, float(p), best_of=turn + 1) == pytest.approx(value)


@pytest.mark.parametrize("case", METRICS["pass_at_k"], ids=str)
def test_pass_at_k(case):
    assert algo.pass_at_k(case["n"], case["c"], case["k"]) == pytest.approx(case["value"])


@pytest.mark.parametrize("case", load("context")["cases"], ids=str)
def test_select_context(case):
    for tie in ("recent", "earliest"):
        assert algo.select_context(case["rewards"], case["w"], tie=tie) == case[tie]
