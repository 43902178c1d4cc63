"""Episodes, turns, verdicts and a gym that follows orders, for tests of what is made of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from drkernel.types import Episode, Extraction, Generation, Message, Turn
from kernelgym.schema import EvalResult, Failure, Finding, Outcome, Submission, Task

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(4, 8)]
"""


def task(name: str = "one", **labels: str) -> Task:
    return Task(name=name, reference=REFERENCE + f"# {name}\n", labels=labels)


def answer(code: str) -> str:
    return f"```python\n{code}\n```"


def verdict(
    outcome: str = "correct",
    speedup: float | None = None,
    coverage: float | None = None,
    kernel_ms: float | None = None,
) -> EvalResult:
    right = outcome == "correct"
    hack = Finding(id="no_own_kernel", severity="hack", message="none", evidence="inside")
    return EvalResult(
        task="one",
        outcome=Outcome(outcome),
        correct=right,
        speedup=speedup if right else None,
        coverage=coverage,
        kernel_ms=kernel_ms,
        findings=(hack,) if outcome == "hack" else (),
        failure=None if right else Failure(stage="forward", code="x", message="wrong"),
    )


def turn(
    index: int,
    result: EvalResult | None = None,
    *,
    status: str = "evaluated",
    code: str | None = "class ModelNew: ...",
    reward: float = 0.0,
    tokens: int = 10,
) -> Turn:
    return Turn.model_validate(
        {
            "index": index,
            "messages_hash": "0",
            "prompt": [Message(role="user", content=f"ask {index}")],
            "generation": Generation(
                text=answer(code or "-"),
                finish="stop",
                prompt_tokens=100 * (index + 1),
                completion_tokens=tokens,
            ),
            "extraction": Extraction(code=code, how="fence" if code else "none"),
            "result": result,
            "status": status,
            "reward": reward,
        }
    )


def episode(
    turns: Sequence[Turn], *, name: str = "one", sample: int = 0, stopped: str = "turns"
) -> Episode:
    return Episode.model_validate(
        {
            "id": f"{name}#{sample}",
            "task": name,
            "task_hash": task(name).content_hash,
            "sample": sample,
            "seed": 0,
            "policy": "scripted",
            "turns": tuple(turns),
            "stopped": stopped,
        }
    )


class ObedientGym:
    """Judges by the first word of the source: ``# 1.5`` is correct and so fast, ``# hack``, ...

    ``# infra N`` fails N times, then is correct.
    """

    def __init__(self, delay_s: float = 0.0) -> None:
        self.asked: Counter[str] = Counter()
        self.forced = 0
        self._delay_s = delay_s

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        self.asked[submission.source] += 1
        self.forced += force
        await asyncio.sleep(self._delay_s)
        words = submission.source.removeprefix("# ").split()
        if words[0] == "infra":
            return None if self.asked[submission.source] <= int(words[1]) else verdict()
        try:
            return verdict(speedup=float(words[0]), coverage=0.5)
        except ValueError:
            return verdict(words[0])
