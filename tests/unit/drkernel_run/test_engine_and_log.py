"""Many episodes: kept turn by turn, taken up again, stopped, given up."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from made import ObedientGym, answer, task, turn, verdict

from drkernel.policy import ScriptedPolicy
from drkernel.rollout import engine
from drkernel.rollout.log import EpisodeLog, read_episodes, read_log
from drkernel.rollout.settings import EpisodeSettings
from drkernel.types import Episode, Generation
from kernelgym.errors import ServiceError, UsageError
from kernelgym.schema import EvalResult, Submission

SETTINGS = EpisodeSettings(variant="compact", turns=3)
ANSWERS = [answer("# mismatch"), answer("# 1.0"), answer("# 2.0")]
TASKS = [task(f"t{n}") for n in range(5)]


async def _all(log: EpisodeLog | None, policy: ScriptedPolicy, **options: object) -> list[Episode]:
    gym = options.pop("gym", ObedientGym(0.002))
    found = engine.run(TASKS, policy, gym, SETTINGS, samples=4, log=log, **options)  # type: ignore[arg-type]
    return [episode async for episode in found]


async def test_every_sample_of_every_task_is_played_once(tmp_path: Path) -> None:
    policy = ScriptedPolicy(ANSWERS)
    with EpisodeLog(tmp_path / "episodes.jsonl") as log:
        episodes = await _all(log, policy, concurrency=7)
    assert len({episode.id for episode in episodes}) == 20
    assert policy.ledger.requests == 60
    lines = [json.loads(line) for line in (tmp_path / "episodes.jsonl").read_text().splitlines()]
    assert Counter(line["kind"] for line in lines) == {"turn": 60, "end": 20}
    assert read_episodes(tmp_path / "episodes.jsonl") == sorted(
        episodes, key=lambda one: (one.task, one.sample)
    )


class CrowdedGym(ObedientGym):
    """Notes how many are judged at the same time."""

    def __init__(self) -> None:
        super().__init__(0.05)
        self.inside = self.most = 0

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            return await super().evaluate(submission, key=key, force=force)
        finally:
            self.inside -= 1


async def test_hundreds_of_episodes_at_once(tmp_path: Path) -> None:
    tasks, gym = [task(f"t{n}") for n in range(100)], CrowdedGym()
    with EpisodeLog(tmp_path / "episodes.jsonl") as log:
        policy = ScriptedPolicy(ANSWERS)
        found = engine.run(tasks, policy, gym, SETTINGS, samples=4, concurrency=300, log=log)
        episodes = [episode async for episode in found]
    assert 200 < gym.most <= 300
    assert sum(gym.asked.values()) == 1200
    assert {len(episode.turns) for episode in episodes} == {3}
    assert read_episodes(tmp_path / "episodes.jsonl") == sorted(
        episodes, key=lambda one: (one.task, one.sample)
    )


async def test_a_log_cut_anywhere_is_taken_up_without_repeating_whole_turns(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    with EpisodeLog(path) as log:
        whole = await _all(log, ScriptedPolicy(ANSWERS), concurrency=3)
    data = path.read_bytes()
    cut = data[: len(data) * 2 // 5]
    path.write_bytes(cut)
    turns_left = 60 - sum(b'"kind":"turn"' in line for line in cut.split(b"\n")[:-1])
    policy = ScriptedPolicy(ANSWERS)
    with EpisodeLog(path) as log:
        again = await _all(log, policy, concurrency=3)
    assert policy.ledger.requests == turns_left
    assert 0 < turns_left < 60
    facts = {e.id: [(t.index, t.extraction.code, t.reward) for t in e.turns] for e in whole}
    assert {e.id: [(t.index, t.extraction.code, t.reward) for t in e.turns] for e in again} == facts


async def test_stopping_keeps_what_had_ended(tmp_path: Path) -> None:
    stop, policy = asyncio.Event(), ScriptedPolicy(ANSWERS)
    with EpisodeLog(tmp_path / "log") as log:
        async for _ in engine.run(
            TASKS, policy, ObedientGym(0.01), SETTINGS, samples=4, log=log, concurrency=4, stop=stop
        ):
            stop.set()
    stored = read_log(tmp_path / "log")
    assert 0 < sum(one.finished for one in stored.values()) < 20
    before = policy.ledger.requests
    with EpisodeLog(tmp_path / "log") as log:
        episodes = await _all(log, policy, concurrency=4)
    assert len(episodes) == 20
    assert policy.ledger.requests - before <= 60


async def test_nothing_but_failures_ends_the_run() -> None:
    def script(*_: object) -> Generation:
        return Generation(text="", finish="error", error="401 no key")

    with pytest.raises(ServiceError, match="401 no key"):
        await _all(None, ScriptedPolicy(script), concurrency=2)


async def test_episodes_that_the_gym_had_failed_are_judged_later(tmp_path: Path) -> None:
    gym = ObedientGym()
    policy = ScriptedPolicy([answer("# infra 4")])
    settings = EpisodeSettings(variant="compact", turns=1, infrastructure_rounds=1)
    stopped = []
    for _ in range(3):
        with EpisodeLog(tmp_path / "log") as log:
            async for one in engine.run(TASKS[:1], policy, gym, settings, log=log):
                stopped.append(one.stopped)
    assert stopped == ["infrastructure", "infrastructure", "turns"]
    assert policy.ledger.requests == 1
    assert [len(e.turns) for e in read_episodes(tmp_path / "log")] == [1]


async def test_two_tasks_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="'t0'"):
        async for _ in engine.run(
            [TASKS[0], TASKS[0]], ScriptedPolicy(ANSWERS), ObedientGym(), SETTINGS
        ):
            pass


def test_a_line_cut_short_is_ignored_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    head = {"id": "a#0", "task": "a", "task_hash": "h", "sample": 0, "seed": 0, "policy": "p"}
    with EpisodeLog(path) as log:
        log.turn(head, turn(0, verdict()))
        log.turn(head, turn(1, verdict("hack")))
    data = path.read_bytes()
    path.write_bytes(data[:-40])
    assert list(read_log(path)["a#0"].turns) == [0]
    with EpisodeLog(path) as log:
        log.turn(head, turn(1, verdict("mismatch")))
        log.end(head, "turns")
    stored = read_log(path)["a#0"]
    assert stored.finished
    assert stored.turns[1].result is not None
    assert stored.turns[1].result.outcome == "mismatch"
