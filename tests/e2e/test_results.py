"""What a result carries besides its outcome."""

from __future__ import annotations

import pytest
from cases import HONEST, HONEST_CASE, task

from kernelgym.sandbox import pinning
from kernelgym.schema import Outcome, Submission


@pytest.fixture(scope="module")
def result(host):
    return host.evaluate(HONEST_CASE.submission())


def test_every_trial_is_there(result) -> None:
    assert [(t.mode, t.index) for t in result.trials] == [
        ("eval", 0), ("eval", 1), ("train", 0), ("train", 1),
    ]  # fmt: skip
    assert all(t.passed and t.max_abs_error == 0.0 for t in result.trials)


def test_the_launch_is_in_the_profile(result) -> None:
    kernel = result.profile.kernels[0]
    assert (kernel.name, kernel.own, kernel.calls, kernel.grid) == (
        "add_kernel",
        True,
        1,
        (1, 1, 1),
    )
    assert {k.mode for k in result.profile.kernels} == {"eval", "train"}


def test_the_kernel_was_compiled_for_the_target(result) -> None:
    (compiled,) = result.profile.compiled
    assert (compiled.name, compiled.target) == ("add_kernel", "sm_90")
    assert compiled.registers > 0
    assert compiled.spill_bytes == 0


def test_several_targets(host) -> None:
    asked = Submission(task=task(), source=HONEST, targets=(80, 100), trials=1)
    compiled = host.evaluate(asked).profile.compiled
    assert {kernel.target for kernel in compiled} == {"sm_80", "sm_100"}


def test_nothing_pretends_to_have_been_measured(result) -> None:
    assert (result.speedup, result.coverage, result.displaced) == (None, None, None)
    assert set(result.not_measured) == {"speedup", "coverage", "displaced"}
    assert all("no GPU" in reason for reason in result.not_measured.values())


def test_provenance(result) -> None:
    provenance = result.provenance
    assert provenance.jail == "L1"
    assert provenance.device == "cpu"
    assert {"python", "torch", "triton", "kernelgym", "linux"} <= set(provenance.versions)
    assert provenance.source_hash == HONEST_CASE.submission().source_hash
    assert provenance.evidence["outcome"] == "outside"
    assert provenance.evidence["profile.kernels"] == "claimed"
    assert dict(pinning.PINNED).items() <= provenance.flags.items()
    assert provenance.flags["candidate_switches"] == "as pinned"
    assert "reference_switches" not in provenance.flags


def test_seeds_are_revealed_afterwards_and_never_used_twice(result, host) -> None:
    again = host.evaluate(HONEST_CASE.submission())
    names = {"init", "eval/0", "eval/1", "train/0", "train/1"}
    assert names <= set(result.provenance.seeds) & set(again.provenance.seeds)
    trials = [seed for r in (result, again) for n, seed in r.provenance.seeds.items() if "/" in n]
    assert len(set(trials)) == len(trials)


def test_stages_sum_to_the_wall(result) -> None:
    provenance = result.provenance
    total = sum(provenance.stage_seconds.values())
    assert total == pytest.approx(provenance.wall_seconds, rel=0.05)
    assert provenance.stage_seconds["handover"] < 0.05 * provenance.wall_seconds + 0.02


def test_autotune_is_cut_and_said(host) -> None:
    source = HONEST.replace(
        "@triton.jit",
        "@triton.autotune([triton.Config({}, num_warps=w) for w in (2, 4)], key=[])\n@triton.jit",
    )
    found = host.evaluate(Submission(task=task(), source=source, trials=1))
    assert found.outcome is Outcome.CORRECT, found.failure
    assert "autotune_cut" in [finding.id for finding in found.findings]
    assert found.provenance.flags["autotune"]
