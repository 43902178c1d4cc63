"""A client of a fault run: submits, waits, writes down what it knows. Order as JSON on stdin."""

from __future__ import annotations

import json
import random
import sys
import time
import uuid
from pathlib import Path
from typing import Any, TextIO

import oracle

from kernelgym.api import EvaluationRequest
from kernelgym.client import Batch, Evaluation, Gym, GymUnavailable
from kernelgym.schema import Submission, Task


def write(log: TextIO, **event: Any) -> None:
    """One event; flushed, for whoever reads the log of a killed process."""
    log.write(json.dumps({"time": time.time(), **event}) + "\n")
    log.flush()


def source(random_: random.Random) -> str:
    """Mostly quick, some slow, a few that the gym fails at first."""
    words = ("ok", "sleep 0.01", "sleep 0.3", "infra-once")
    [word] = random_.choices(words, weights=(70, 20, 8, 2))
    return f"{word} {uuid.uuid4().hex}"


class Work:
    """What is left to submit: stubs' tasks, and real ones among them."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.random = random.Random(order["seed"])
        self.left, self.real = order["tasks"], order.get("real", 0)
        self._order = order
        self.expected: dict[str, dict[str, Any]] = {}
        """What verdicts of real ones must show, by key."""

    def batch(self) -> list[EvaluationRequest]:
        """A batch of random size."""
        size = min(self.left, self.random.randint(1, self._order["batch"]))
        return [self._request() for _ in range(size)]

    def _request(self) -> EvaluationRequest:
        is_real = self.random.random() * self.left < self.real
        self.left -= 1
        key = uuid.uuid4().hex
        if is_real:
            self.real -= 1
            submission, self.expected[key] = oracle.question(self.random)
        else:
            task = Task(name=f"{self._order['name']}-{self.left}", reference="reference")
            submission = Submission(task=task, source=source(self.random))
        return EvaluationRequest(
            submission=submission,
            key=key,
            device="cpu" if is_real else "stub",
            deadline_s=self._order["deadline_s"],
        )


def report(log: TextIO, who: str, one: Evaluation) -> None:
    """What the gym says in the end."""
    write(
        log,
        op="result",
        who=who,
        key=one.key,
        id=one.id,
        state=one.state,
        attempts=one.attempts,
        finished=one.finished_ms / 1000,
        source_hash=one.result.provenance.source_hash if one.result else "",
        seen=oracle.seen(one.result) if one.result else None,
    )


def run(order: dict[str, Any], log: TextIO) -> None:
    """Submit in batches, a few in flight at a time."""
    who, work = order["name"], Work(order)
    with Gym(order["server"], token=order.get("token"), name=who, patience_s=180.0) as gym:
        open_batches: list[Batch] = []
        while work.left > 0 or open_batches:
            while work.left > 0 and len(open_batches) < order["in_flight"]:
                items = work.batch()
                open_batches.append(submit(gym, log, who, items, work.expected))
            batch = open_batches.pop(0)
            for one in gym.results(batch):
                report(log, who, one)


def submit(
    gym: Gym,
    log: TextIO,
    who: str,
    items: list[EvaluationRequest],
    expected: dict[str, dict[str, Any]],
) -> Batch:
    """Submit and say what is known of it."""
    for item in items:
        write(
            log,
            op="submit",
            status="invoke",
            who=who,
            key=item.key,
            source_hash=item.submission.source_hash,
            deadline_s=item.deadline_s,
            expected=expected.get(item.key),
        )
    status = "ok"
    batch = Batch(items)
    try:
        batch = gym.submit(items)
    except GymUnavailable:
        status = "unknown"
    for item in items:
        write(log, op="submit", status=status, who=who, key=item.key)
    return batch


def main() -> None:
    """Read the order and run."""
    order = json.loads(sys.stdin.read())
    with Path(order["log"]).open("a") as log:
        run(order, log)


if __name__ == "__main__":
    main()
