"""Whole episodes over an endpoint that misbehaves: every turn once, every token paid for once."""

import json
import random
from collections import Counter

import pytest
from openai_endpoint import FAULTS, PRICE, Endpoint, policy_at

from drkernel.policy.settings import LimitSettings
from drkernel.rollout import engine
from drkernel.rollout.log import EpisodeLog, read_episodes
from drkernel.rollout.settings import EpisodeSettings
from kernelgym.schema import EvalResult, Outcome, Task

REFERENCE = "class Model: ...\ndef get_inputs(): return []\n"
CUT = {
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "```python\nclass ModelNew:\n    # and so"},
            "finish_reason": "length",
        }
    ],
    "usage": {"prompt_tokens": 50, "completion_tokens": 70},
}
GOOD = {
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "```python\nclass ModelNew: ...\n```"},
            "finish_reason": "stop",
        }
    ]
}


class Gym:
    """Everything is correct."""

    def __init__(self):
        self.asked = 0

    async def evaluate(self, submission, *, key="", force=False):
        self.asked += 1
        return EvalResult(task=submission.task.name, outcome=Outcome.CORRECT, correct=True)


async def test_nothing_is_lost_and_nothing_counted_twice(tmp_path):
    draw = random.Random(3)

    def plan(prompt, attempt):
        if attempt <= 5 and draw.random() < 0.5:
            return draw.choice(FAULTS)
        if draw.random() < 0.2:
            return (200, [], json.dumps(CUT))
        return "ok"

    tasks = [Task(name=f"t{n}", reference=REFERENCE + f"# {n}\n") for n in range(10)]
    limits = LimitSettings(concurrency=16, attempts=50)
    gym = Gym()
    async with (
        Endpoint(plan) as endpoint,
        policy_at(endpoint, limits=limits, price=PRICE) as policy,
    ):
        endpoint.reply = GOOD
        with EpisodeLog(tmp_path / "episodes.jsonl") as log:
            settings = EpisodeSettings(turns=3, variant="compact")
            found = engine.run(tasks, policy, gym, settings, samples=2, concurrency=20, log=log)
            episodes = [episode async for episode in found]
        ledger = policy.ledger
        accepted = [r for r in endpoint.requests if r["done"] == "ok" or r["done"][0] == 200]
    turns = [turn for episode in episodes for turn in episode.turns]
    assert Counter(episode.stopped for episode in episodes) == {"turns": 20}
    assert len(turns) == len(accepted) == ledger.calls == 60
    statuses = Counter(turn.status for turn in turns)
    assert set(statuses) == {"evaluated", "truncated"}
    assert gym.asked == statuses["evaluated"]
    assert all(turn.valid for turn in turns)
    lines = (tmp_path / "episodes.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["kind"] == "turn" for line in lines) == 60
    assert len(read_episodes(tmp_path / "episodes.jsonl")) == 20
    spent = sum(turn.generation.cost_usd for turn in turns)
    assert spent == pytest.approx(ledger.cost_usd)
    assert sum(turn.generation.completion_tokens for turn in turns) == ledger.completion_tokens
    assert len(endpoint.requests) > 100
