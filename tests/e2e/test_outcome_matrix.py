"""The outcome matrix: each way to end has its own outcome; the next candidate is judged right."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from cases import CASES, HONEST_CASE, Case

from kernelgym.schema import EvalResult, Outcome


def check(case: Case, result: EvalResult) -> None:
    failure = result.failure
    seen = (result.outcome, failure and (failure.code, failure.message[:300]))
    assert result.outcome is case.outcome, seen
    if failure is not None:
        if case.code is not None:
            assert failure.code == case.code, seen
        if case.stage is not None:
            assert failure.stage == case.stage, seen
        if case.line is not None:
            assert failure.line == case.line, (failure.line, failure.excerpt)
            assert case.line_of in failure.excerpt
        assert len(failure.message) < 10_000
        assert len(failure.traceback) < 20_000
        assert "/root" not in failure.traceback
    if case.finding is not None:
        assert case.finding in [finding.id for finding in result.findings]


def orphans() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == "kg-orphan":
                found.append(str(path))
        except OSError:
            continue
    return found


def judge(host, case: Case, *, polled: bool = False) -> None:
    result = host.evaluate(case.submission())
    if polled and case.where_polled is not None and result.outcome is case.where_polled[0]:
        outcome, code = case.where_polled
        case = dataclasses.replace(case, outcome=outcome, code=code)
    check(case, result)
    assert result.provenance.jail == host.level
    assert not orphans()
    after = host.evaluate(HONEST_CASE.submission())
    assert after.outcome is Outcome.CORRECT, after.failure


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outcome(host, case: Case) -> None:
    judge(host, case)


_ELSEWHERE = [("user", "L1"), ("docker", "L0"), ("root", "none")]
_CHOSEN = [
    *("sys_exit", "os_exit", "segfault", "infinite_loop", "memory_bomb", "fork_bomb"),
    *("daemonised_children", "decoy", "kernel_compile_error", "forged_answer"),
]


@pytest.mark.root
@pytest.mark.parametrize("place", _ELSEWHERE, ids=lambda place: "-".join(place))
@pytest.mark.parametrize("name", _CHOSEN)
def test_outcome_elsewhere(hosts, place: tuple[str, str], name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    world, level = place
    if level not in case.levels:
        pytest.skip("this level does not bound it")
    judge(hosts(world, level), case, polled=world != "root")
