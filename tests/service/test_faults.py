"""1,000 evaluations under kill -9 of workers, server and broker; and what the checker can see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import history
import injections
import pytest
from fault_run import GRACE_S, FaultRun, Plan


@pytest.mark.timeout(900)  # seconds on a quiet machine; the faults make it long on a busy one
def test_nothing_is_lost_duplicated_or_swapped_under_faults(tmp_path: Path) -> None:
    report, summary = FaultRun(Plan(seed=7, most_faults=20), tmp_path).run()
    assert report.broken == {}, summary
    assert report.attempted == report.acknowledged + report.unknown == 1000
    assert report.done + report.dead == 1000
    assert sum(summary["faults"].values()) >= 3, summary
    assert injections.missed(summary["checker_finds"]) == []


@pytest.mark.timeout(900)
def test_real_verdicts_are_those_of_their_own_inputs_under_faults(tmp_path: Path) -> None:
    plan = Plan(
        tasks=60,
        real=16,
        workers=2,
        real_workers=1,
        partitions=True,
        seconds_between_s=1.5,
        deadline_s=800.0,
        most_faults=8,
        batch=15,
        seed=3,
    )
    report, summary = FaultRun(plan, tmp_path).run()
    assert report.broken == {}, summary
    assert report.done == 60, summary
    assert report.judged == 16, summary
    assert injections.missed(summary["checker_finds"]) == []
    assert "real verdicts exchanged, hashes right" in summary["checker_finds"]


def submitted(key: str, status: str, **more: Any) -> history.Event:
    event = {"time": 1.0, "op": "submit", "status": status, "key": key}
    return event | ({"source_hash": f"h-{key}", "deadline_s": 5.0} if status == "invoke" else {})


def result(key: str, **more: Any) -> history.Event:
    event = {"time": 2.0, "op": "result", "key": key, "id": f"id-{key}", "state": "done"}
    return event | {"attempts": 1, "finished": 2.0, "source_hash": f"h-{key}"} | more


GOOD = [submitted("a", "invoke"), submitted("a", "ok"), result("a")]


@pytest.mark.parametrize(
    ("events", "broken"),
    [
        (GOOD, {}),
        (GOOD[:2], {"lost": 1}),
        ([submitted("a", "invoke"), submitted("a", "unknown")], {}),
        ([*GOOD, result("b")], {"unexpected": 1}),
        ([*GOOD[:2], result("a", state="running")], {"hung": 1}),
        ([*GOOD[:2], result("a", finished=100.0)], {"hung": 1}),
        ([*GOOD, result("a", id="other")], {"duplicated": 1}),
        ([*GOOD[:2], result("a", source_hash="other")], {"swapped": 1}),
        ([*GOOD[:2], result("a", state="dead", source_hash="")], {}),
    ],
)
def test_each_rule_of_the_checker(events: list[history.Event], broken: dict[str, int]) -> None:
    assert history.check(events, GRACE_S).broken == broken


RIGHT = {"outcome": "correct", "mark": "m1", "off": 0.0}
CRASH = {"outcome": "crash", "mark": "", "off": 0.0}
CLAIM = {"time": 1.2, "op": "claim", "who": "w1", "id": "id-a", "token": 1}
KILL = {"time": 1.4, "op": "fault", "kind": "kill-child", "who": "w1"}


@pytest.mark.parametrize(
    ("seen", "between", "broken", "spoiled"),
    [
        (RIGHT, [CLAIM], {}, 0),
        (RIGHT | {"mark": "m2"}, [CLAIM], {"wrong": 1}, 0),
        (RIGHT | {"off": 0.5}, [CLAIM, KILL], {"wrong": 1}, 0),
        (CRASH, [CLAIM], {"wrong": 1}, 0),
        (CRASH, [CLAIM, KILL], {}, 1),
        (CRASH, [CLAIM, KILL | {"who": "w2"}], {"wrong": 1}, 0),
        (CRASH, [CLAIM, KILL | {"time": 1.1}], {"wrong": 1}, 0),
    ],
)
def test_real_verdicts_are_compared_with_their_own_input(
    seen: dict[str, Any], between: list[history.Event], broken: dict[str, int], spoiled: int
) -> None:
    asked = submitted("a", "invoke") | {"expected": RIGHT}
    events = [asked, submitted("a", "ok"), *between, result("a", seen=seen)]
    report = history.check(sorted(events, key=lambda event: event["time"]), GRACE_S)
    assert (report.broken, report.spoiled, report.judged) == (broken, spoiled, 1)


def test_unknown_submission_that_happened_counts_as_recovered() -> None:
    events = [submitted("a", "invoke"), submitted("a", "unknown"), result("a")]
    report = history.check(events, GRACE_S)
    assert (report.recovered, report.broken) == (1, {})


def test_requeue_time_runs_from_the_loss_of_the_worker() -> None:
    events = [
        {"time": 1.0, "op": "claim", "who": "w1", "id": "t", "token": 1},
        {"time": 2.0, "op": "fault", "kind": "kill-worker", "who": "w1"},
        {"time": 3.5, "op": "claim", "who": "w2", "id": "t", "token": 2},
        {"time": 4.0, "op": "settle", "id": "t", "token": 2, "kind": "verdict", "answer": "ok"},
    ]
    assert history.requeue_seconds(events) == [1.5]
