"""1,000 evaluations under kill -9 of workers, server and broker; and what the checker can see."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import history
import pytest
from fault_run import GRACE_S, FaultRun, Plan


@pytest.mark.timeout(900)  # seconds on a quiet machine; the faults make it long on a busy one
def test_nothing_is_lost_duplicated_or_swapped_under_faults(tmp_path: Path) -> None:
    report, summary = FaultRun(Plan(seed=7), tmp_path).run()
    assert report.broken == {}, summary
    assert report.attempted == report.acknowledged + report.unknown == 1000
    assert report.done + report.dead == 1000
    assert sum(summary["faults"].values()) >= 3, summary
    check_that_the_checker_sees(history.read(sorted(tmp_path.glob("*.jsonl"))))


def check_that_the_checker_sees(events: list[history.Event]) -> None:
    """A real history with one thing broken in it must be found broken, each time."""
    results = [n for n, event in enumerate(events) if event["op"] == "result"]
    first, second = results[0], results[-1]

    lost = [event for n, event in enumerate(events) if n != first]
    assert history.check(lost, GRACE_S).broken == {"lost": 1}

    swapped = copy.deepcopy(events)
    hashes = swapped[first]["source_hash"], swapped[second]["source_hash"]
    swapped[second]["source_hash"], swapped[first]["source_hash"] = hashes
    assert history.check(swapped, GRACE_S).broken == {"swapped": 2}

    settled = next(
        e for e in events if e["op"] == "settle" and e["kind"] == "verdict" and e["answer"] == "ok"
    )
    again = [*events, {**settled, "token": settled["token"] + 1}]
    assert history.check(again, GRACE_S).broken == {"duplicated": 1}


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
