"""A real history with one thing broken in it, each in turn: what the checker says to it."""

from __future__ import annotations

import copy

import history

_WANTED = {
    "one result left out": {"lost": 1},
    "two results exchanged": {"swapped": 2},
    "an older lease committed too": {"duplicated": 1},
    "one key evaluated as two tasks": {"duplicated": 1},
    "a result in no final state": {"hung": 1},
    "real verdicts exchanged, hashes right": {"wrong": 2},
}


def found(events: list[history.Event], grace_s: float) -> dict[str, dict[str, int]]:
    """The rules that the checker sees broken, by what was done to the history."""
    results = [n for n, event in enumerate(events) if event["op"] == "result"]
    done = [n for n in results if events[n]["state"] == "done"]
    commit = next(
        one
        for one in events
        if one["op"] == "settle" and one["kind"] == "verdict" and one["answer"] == "ok"
    )
    last = events[results[-1]]
    broken = {
        "one result left out": [one for n, one in enumerate(events) if n != results[0]],
        "two results exchanged": _exchanged(events, done[0], done[-1], "source_hash"),
        "an older lease committed too": [*events, {**commit, "token": commit["token"] + 1}],
        "one key evaluated as two tasks": [*events, {**last, "id": "another"}],
        "a result in no final state": [
            {**one, "state": "running"} if one is last else one for one in events
        ],
    }
    real = [n for n in done if events[n].get("seen") and events[n]["seen"]["mark"]]
    if len(real) > 1:
        name = "real verdicts exchanged, hashes right"
        broken[name] = _exchanged(events, real[0], real[-1], "seen")
    return {name: history.check(one, grace_s).broken for name, one in broken.items()}


def missed(findings: dict[str, dict[str, int]]) -> list[str]:
    """Injections that the checker did not see for what they are."""
    return [name for name, broken in findings.items() if broken != _WANTED[name]]


def _exchanged(
    events: list[history.Event], first: int, second: int, field: str
) -> list[history.Event]:
    changed = copy.deepcopy(events)
    changed[first][field], changed[second][field] = events[second][field], events[first][field]
    return changed
