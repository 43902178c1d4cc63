"""The outcome matrix: each way to end has its own outcome; the next candidate is judged right.

The whole of it at L1 as root, at L1 through a user namespace and at L0 as root with a container's
capabilities; where nothing confines, the cases that bound themselves. Not covered: an ordinary user
at L0, and a GPU (``benchmarks/gpu_jail_matrix.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cases import CASES, DISTURBING, HONEST_CASE, Case

from kernelgym.schema import EvalResult, Outcome, Submission


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


def orphans(name: str) -> list[str]:
    """Processes that call themselves so."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == name:
                found.append(str(path))
        except OSError:
            continue
    return found


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a jail is made, and which level of it."""

    world: str
    level: str
    whole: bool = True
    """Every case; otherwise those of `CHOSEN`."""

    def __str__(self) -> str:
        return f"{self.world}-{self.level}"

    @property
    def orphan(self) -> str:
        """What a candidate's daemons call themselves here: places are judged beside each other."""
        return f"kg-{self.world}-{self.level}"

    def cases(self) -> list[Case]:
        return [
            case
            for case in CASES
            if self.level in case.levels and (self.whole or case.name in CHOSEN)
        ]

    def submission(self, case: Case) -> Submission:
        """The real compiler takes part in all cases at the usual place, else where it decides."""
        asked = case.submission()
        source = asked.source.replace("kg-orphan", self.orphan)
        targets = asked.targets if self.world == "here" or case.stage == "compile" else ()
        return asked.model_copy(update={"source": source, "targets": targets})


CHOSEN = frozenset({
    *("sys_exit", "os_exit", "segfault", "infinite_loop", "daemonised_children"),
    *("decoy", "kernel_compile_error", "forged_answer"),
})  # fmt: skip
PLACES = [
    Place("here", "L1"),
    Place("user", "L1"),
    Place("docker", "L0"),
    Place("root", "none", whole=False),
]
ALONE = frozenset({"fork_bomb", "memory_bomb"})
"""What an ordinary user's processes may be is one number for all of them."""
LANES = 3
PARAMETERS = [
    pytest.param(place, case, id=f"{place}-{case.name}", marks=pytest.mark.root)
    for place in PLACES
    for case in place.cases()
]


@dataclasses.dataclass(frozen=True)
class Judged:
    """A case, what a good candidate got right after it in the same lane, and what was left.

    Away from the usual place only cases that could disturb it have one of their own behind them.
    """

    result: EvalResult
    after: EvalResult | None
    left: list[str]


@pytest.fixture(scope="module")
def matrix(hosts, request) -> Callable[[Place], dict[str, Judged | Exception]]:
    """Judges all cases of a place that are asked for, some at a time, when the first is needed."""
    done: dict[Place, dict[str, Judged | Exception]] = {}
    asked: dict[Place, list[Case]] = {}
    for item in request.session.items:
        chosen = getattr(item, "callspec", None)
        if item.path == request.path and chosen is not None:
            asked.setdefault(chosen.params["place"], []).append(chosen.params["case"])

    def get(place: Place) -> dict[str, Judged | Exception]:
        if place not in done:
            done[place] = judge(hosts(place.world, place.level), place, asked[place])
        return done[place]

    return get


def judge(host, place: Place, cases: list[Case]) -> dict[str, Judged | Exception]:
    honest = HONEST_CASE.submission().model_copy(update={"targets": (), "trials": 1})

    def one(case: Case) -> Judged | Exception:
        try:
            result = host.evaluate(place.submission(case))
            left = orphans(place.orphan) if case.name == "daemonised_children" else []
            watched = place.world == "here" or case.name in DISTURBING
            return Judged(result, host.evaluate(honest) if watched else None, left)
        except Exception as error:
            return error

    together = [case for case in cases if case.name not in ALONE]
    alone = [case for case in cases if case.name in ALONE]
    with ThreadPoolExecutor(LANES) as lanes:
        found = list(zip(together, lanes.map(one, together), strict=True))
    found += [(case, one(case)) for case in alone]
    return {case.name: judged for case, judged in found}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("place", "case"), PARAMETERS)
def test_outcome(matrix, place: Place, case: Case) -> None:
    judged = matrix(place)[case.name]
    if isinstance(judged, Exception):
        raise judged
    polled = place.world in ("user", "docker")
    if polled and case.where_polled is not None and judged.result.outcome is case.where_polled[0]:
        outcome, code = case.where_polled
        case = dataclasses.replace(case, outcome=outcome, code=code)
    check(case, judged.result)
    assert judged.result.provenance.jail == place.level
    assert judged.left == []
    if judged.after is not None:
        assert judged.after.outcome is Outcome.CORRECT, judged.after.failure
