"""The package itself: what it exports, what it imports, and that its examples are true."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import drkernel.algo

MODULES = [module.name for module in pkgutil.iter_modules(drkernel.algo.__path__)]

FIXED = {
    "turn_reward": "correct, speedup, coverage, *, cap=3.0, use_coverage=True, "
    "weights=(1.0, 1.0, 1.0)",
    "gated_reward": "compiled, correct, speedup, *, r_compile=-1.0, r_incorrect=-0.5, "
    "transform='identity', cap=3.0, valid=True",
    "returns_to_go": "rewards, valid, gamma=1.0",
    "group_sizes": "group, valid",
    "trloo": "returns, group, valid, *, singleton='raw'",
    "grpo": "returns, group, valid, *, normalize=False, eps=1e-06",
    "rloo_trajectory": "rewards, group, valid",
    "reinforce": "returns, group, valid, *, whiten=True",
    "mismatch_keep": "logp_train, logp_rollout, mask, *, low=0.999, high=1.001, veto=0.0001, "
    "veto_high=None, level='turn', trajectory=None",
    "profiling_keep_probability": "coverage, correct, *, tau=0.3, softness=0.1, "
    "keep_incorrect=True, unknown='keep'",
    "profiling_keep": "coverage, correct, *, seed",
    "drop_degenerate_groups": "returns, group, valid, *, min_std=0.001, on='any_turn'",
    "policy_loss": "logp, logp_old, advantages, mask, *, clip_low=0.2, clip_high=0.28, "
    "clip_dual=3.0, aggregate='seq_mean_token_sum', denominator=None",
    "fast_at_p": "speedups, p, *, turn=None, best_of=None",
    "correct_rate": "correct, *, turn=None, best_of=None",
    "pass_at_k": "n, c, k",
    "hack_ratio": "outcomes",
    "clustered_interval": "values, *, level=0.95, samples=10000, seed=0",
    "select_context": "rewards, w, *, tie='recent', rule='top'",
    "turn_schedule": "max_turns, iterations, w",
}


@pytest.mark.parametrize("name", FIXED)
def test_names_and_defaults_are_fixed(name):
    signature = inspect.signature(getattr(drkernel.algo, name))
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(inspect.Signature(bare))[1:-1]
    if "*" not in FIXED[name]:
        text = text.split(", *")[0]  # an added option is keyword-only
    assert text.startswith(FIXED[name])


def test_exports_are_real_and_listed_once():
    names = drkernel.algo.__all__
    assert len(names) == len(set(names))
    assert all(hasattr(drkernel.algo, name) for name in names)
    assert set(FIXED) <= set(names)


def test_importing_needs_no_torch():
    code = "import sys, drkernel.algo; print('torch' in sys.modules)"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "False"


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(f"drkernel.algo.{name}")
    assert module.__doc__
    failures, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failures == 0


def test_every_exported_function_is_documented_and_most_show_an_example():
    functions = [value for value in vars(drkernel.algo).values() if inspect.isfunction(value)]
    assert all(function.__doc__ for function in functions)
    with_example = [function for function in functions if ">>>" in function.__doc__]
    assert len(with_example) / len(functions) > 0.8
