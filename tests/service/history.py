"""What clients and workers wrote down during a fault run, and what must be true of it.

Clients log ``submit`` (invoke, ok, unknown: a submission without an answer may have happened) and
``result``. Workers log ``claim`` and ``settle`` with the broker's answer. The end of the run is the
broker's own view of every task. Real evaluations carry what their verdict must show and what it
showed (`oracle`); one whose process was killed meanwhile may say so instead.

After Jepsen's total-queue checker: what was acknowledged must be there in the end, exactly once,
with the answer to its own question.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import oracle

Event = dict[str, Any]
FINAL = ("done", "cancelled", "dead")
_OF_THE_KILLED = ("crash", "out_of_memory", "runtime_error")
_LOSE_A_WORKER = ("kill-worker", "stop-worker", "cut-worker")


@dataclass
class Report:
    """Counts; the names in ``broken`` must be empty."""

    attempted: int = 0
    acknowledged: int = 0
    unknown: int = 0
    recovered: int = 0
    """Unknown to the client, yet evaluated."""
    done: int = 0
    dead: int = 0
    retried: int = 0
    stale_refused: int = 0
    judged: int = 0
    """Real verdicts that were compared with what their own input asks for."""
    spoiled: int = 0
    """Of those, verdicts on a candidate whose process somebody killed."""
    lost: list[str] = field(default_factory=list)
    """Acknowledged, and no result in the end."""
    duplicated: list[str] = field(default_factory=list)
    """Two leases of one task committed, or one key was evaluated as two tasks."""
    swapped: list[str] = field(default_factory=list)
    """The result of another source."""
    wrong: list[str] = field(default_factory=list)
    """A real verdict that is not the one of its own input."""
    hung: list[str] = field(default_factory=list)
    """Not ended by deadline and grace."""
    unexpected: list[str] = field(default_factory=list)
    """A result nobody asked for."""

    @property
    def broken(self) -> dict[str, int]:
        """Rules that were broken, and how often."""
        rules = ("lost", "duplicated", "swapped", "wrong", "hung", "unexpected")
        return {rule: len(found) for rule in rules if (found := getattr(self, rule))}

    def summary(self) -> dict[str, Any]:
        """For a results file."""
        numbers = asdict(self)
        return {k: len(v) if isinstance(v, list) else v for k, v in numbers.items()}


def read(paths: Iterable[Path]) -> list[Event]:
    """Events of several logs, by time; a torn last line of a killed process is left out."""
    events = []
    for path in paths:
        for line in path.read_text().splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
    return sorted(events, key=lambda event: event["time"])


def check(events: list[Event], grace_s: float) -> Report:
    """Check a history."""
    report = Report()
    asked: dict[str, Event] = {}
    acknowledged: set[str] = set()
    for event in events:
        if event["op"] == "submit":
            if event["status"] == "invoke":
                asked[event["key"]] = event
            elif event["status"] == "ok":
                acknowledged.add(event["key"])
    report.attempted, report.acknowledged = len(asked), len(acknowledged)
    report.unknown = len(asked.keys() - acknowledged)
    _check_results(events, asked, acknowledged, grace_s, report)
    _check_commits(events, report)
    return report


def _check_results(
    events: list[Event],
    asked: dict[str, Event],
    acknowledged: set[str],
    grace_s: float,
    report: Report,
) -> None:
    killed = _killed(events)
    ends: dict[str, Event] = {}
    ids: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event["op"] != "result":
            continue
        key = event["key"]
        if key not in asked:
            report.unexpected.append(key)
            continue
        ids[key].add(event["id"])
        ends[key] = event
    for key, request in asked.items():
        end = ends.get(key)
        if end is None:
            if key in acknowledged:
                report.lost.append(key)
            continue
        if end["state"] not in FINAL:
            report.hung.append(key)
            continue
        report.recovered += key not in acknowledged
        _check_end(request, end, killed, grace_s, report)
    report.duplicated += [key for key, found in ids.items() if len(found) > 1]


def _check_end(
    request: Event, end: Event, killed: set[str], grace_s: float, report: Report
) -> None:
    is_done = end["state"] == "done"
    report.done += is_done
    report.dead += end["state"] == "dead"
    report.retried += end["attempts"] > 1
    if is_done and end["source_hash"] != request["source_hash"]:
        report.swapped.append(end["key"])
    if is_done and request.get("expected") is not None:
        _check_verdict(request["expected"], end, killed, report)
    if end["finished"] > request["time"] + request["deadline_s"] + grace_s:
        report.hung.append(end["key"])


def _check_verdict(expected: dict[str, Any], end: Event, killed: set[str], report: Report) -> None:
    report.judged += 1
    if end["seen"] is not None and oracle.agrees(expected, end["seen"]):
        return
    if end["id"] in killed and end["seen"] is not None and end["seen"]["outcome"] in _OF_THE_KILLED:
        report.spoiled += 1
    else:
        report.wrong.append(end["key"])


def _killed(events: list[Event]) -> set[str]:
    """Evaluations in the hands of a worker when one of its jailed processes was killed."""
    held: dict[str, set[str]] = defaultdict(set)
    found: set[str] = set()
    for event in events:
        if event["op"] == "claim":
            held[event["who"]].add(event["id"])
        elif event["op"] == "settle":
            held[event["who"]].discard(event["id"])
        elif event["op"] == "fault" and event["kind"] == "kill-child":
            found |= held[event["who"]]
    return found


def _check_commits(events: list[Event], report: Report) -> None:
    """At most one lease of a task may have committed; a repeated answer is the same commit."""
    commits: dict[str, set[int]] = defaultdict(set)
    for event in events:
        if event["op"] != "settle" or event["kind"] != "verdict":
            continue
        if event["answer"] in ("ok", "same"):
            commits[event["id"]].add(event["token"])
        else:
            report.stale_refused += event["answer"] == "stale"
    report.duplicated += [one for one, tokens in commits.items() if len(tokens) > 1]


def requeue_seconds(events: list[Event]) -> list[float]:
    """From the loss of a worker to the next claim of each task it held, in seconds."""
    holders: dict[str, tuple[str, int]] = {}
    lost: dict[str, float] = {}
    delays = []
    for event in events:
        if event["op"] == "claim":
            if event["id"] in lost:
                delays.append(event["time"] - lost.pop(event["id"]))
            holders[event["id"]] = (event["who"], event["token"])
        elif event["op"] == "settle":
            holders.pop(event["id"], None)
        elif event["op"] == "fault" and event["kind"] in _LOSE_A_WORKER:
            for task, (who, _) in list(holders.items()):
                if who == event["who"]:
                    lost[task] = event["time"]
                    del holders[task]
    return sorted(delays)
