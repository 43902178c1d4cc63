"""Candidates evaluated once more: against another reference, or to be sure of a winner.

Kept in ``rejudged.jsonl``, one line a candidate and purpose; what it holds is not done again.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drkernel.rollout.evaluator import Evaluator
from kernelgym.schema import EvalResult, Submission


@dataclass(frozen=True)
class Again:
    """One candidate to be judged again."""

    episode: str
    turn: int
    purpose: str
    """``verify``, or ``baseline torch_compile``."""
    submission: Submission

    @property
    def key(self) -> tuple[str, int, str]:
        """What is judged, and why."""
        return (self.episode, self.turn, self.purpose)


Verdicts = dict[tuple[str, int, str], EvalResult]


def read_verdicts(path: Path) -> Verdicts:
    """What was judged again so far."""
    found: Verdicts = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            record: dict[str, Any] = json.loads(line)
            key = (record["episode"], record["turn"], record["purpose"])
            found[key] = EvalResult.model_validate(record["result"])
        except (ValueError, KeyError, TypeError, ValidationError):
            continue  # cut short by a crash: judged again
    return found


async def judge_again(
    evaluator: Evaluator, work: Iterable[Again], path: Path, *, concurrency: int = 32
) -> Verdicts:
    """Judge what ``path`` does not hold yet, with nothing kept of earlier evaluations.

    What the gym fails is not in the answer, and is tried again by the next call.
    """
    found = read_verdicts(path)
    todo = {one.key: one for one in work if one.key not in found}
    slots = asyncio.Semaphore(concurrency)

    async def judge(one: Again) -> None:
        async with slots:
            key = f"{one.episode}/{one.turn}/{one.purpose}"
            result = await evaluator.evaluate(one.submission, key=key, force=True)
        if result is not None:
            _append(path, one, result)
            found[one.key] = result

    tasks = [asyncio.create_task(judge(one)) for one in todo.values()]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return found


def _append(path: Path, one: Again, result: EvalResult) -> None:
    record: Mapping[str, Any] = {
        "episode": one.episode,
        "turn": one.turn,
        "purpose": one.purpose,
        "result": result.model_dump(mode="json"),
    }
    with path.open("a+b") as file:
        if file.tell() and not _ends_with_newline(path):
            file.write(b"\n")
        file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
