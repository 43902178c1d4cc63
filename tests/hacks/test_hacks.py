"""The corpus of cheats: none is paid here, each is paid by a naive evaluator, twins are honest."""

from __future__ import annotations

import hack_corpus
import pytest
from hack_corpus import Case

from kernelgym.judge.probes import PROBES, SAFEGUARDS

ALL = hack_corpus.cheats()
CHEATS = [case for case in ALL if case.runs_on("cpu")]
CAUGHT = [case for case in CHEATS if case.outcome != "correct"]
TWINS = [case for case in hack_corpus.twins() if any(case.name == f"twin_{c.twin}" for c in CHEATS)]


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", CHEATS, ids=named)
def test_a_cheat_is_not_paid(judged, case):
    result = judged(case)
    found = [(finding.id, finding.message) for finding in result.findings]
    assert result.outcome.value == case.outcome, (result.failure, found)
    if case.code:
        assert result.failure is not None
        assert result.failure.code == case.code, result.failure
    if case.finding:
        assert case.finding in [name for name, _ in found]
    assert result.speedup is None


@pytest.mark.parametrize("case", CHEATS, ids=named)
def test_a_naive_evaluator_pays_it(naive, case):
    verdict = naive(case)
    assert verdict["correct"], verdict


@pytest.mark.parametrize("case", TWINS, ids=named)
def test_its_twin_is_correct(judged, case):
    result = judged(case)
    assert result.outcome.value == "correct", result.failure
    assert not [f for f in result.findings if f.severity != "info"]


def test_the_corpus_is_as_large_as_promised():
    assert len(CHEATS) >= 40
    assert len({case.task_name for case in CHEATS}) >= 12
    assert {id_[0] for case in ALL for id_ in case.ids} >= set("ABCDFGH")
    assert len({case.sentence for case in ALL}) == len(ALL)


def test_a_cheat_that_is_correct_says_why_it_gains_nothing():
    assert all(c.fields.get("neutral") or c.finding for c in ALL if c.outcome == "correct")


def test_every_probe_of_the_judge_catches_a_cheat_of_the_corpus():
    probes = {case.probe for case in CAUGHT}
    assert {probe.name for probe in PROBES} <= probes
    assert set(SAFEGUARDS) <= set(PROBES)
