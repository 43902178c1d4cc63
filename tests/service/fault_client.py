"""A client of a fault run: submits, waits, writes down what it knows. Order as JSON on stdin."""

from __future__ import annotations

import json
import random
import sys
import time
import uuid
from pathlib import Path
from typing import Any, TextIO

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


def requests(order: dict[str, Any], random_: random.Random) -> list[EvaluationRequest]:
    """A batch of random size."""
    return [
        EvaluationRequest(
            submission=Submission(
                task=Task(name=f"{order['name']}-{n}", reference="reference"),
                source=source(random_),
            ),
            key=uuid.uuid4().hex,
            deadline_s=order["deadline_s"],
        )
        for n in range(random_.randint(1, order["batch"]))
    ]


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
    )


def run(order: dict[str, Any], log: TextIO) -> None:
    """Submit in batches, a few in flight at a time."""
    random_ = random.Random(order["seed"])
    who, left = order["name"], order["tasks"]
    with Gym(order["server"], token=order.get("token"), name=who, patience_s=180.0) as gym:
        open_batches: list[Batch] = []
        while left > 0 or open_batches:
            while left > 0 and len(open_batches) < order["in_flight"]:
                items = requests(order, random_)[:left]
                left -= len(items)
                open_batches.append(submit(gym, log, who, items))
            batch = open_batches.pop(0)
            for one in gym.results(batch):
                report(log, who, one)


def submit(gym: Gym, log: TextIO, who: str, items: list[EvaluationRequest]) -> Batch:
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
