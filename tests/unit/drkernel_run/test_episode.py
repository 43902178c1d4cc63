"""One episode: early ends leave turns missing, the gym's faults are retried and then masked."""

from __future__ import annotations

import pytest
from made import ObedientGym, answer, task

from drkernel.policy import ScriptedPolicy
from drkernel.rollout.episode import kept_turns, run_episode
from drkernel.rollout.settings import (
    BudgetSettings,
    ContextSettings,
    EpisodeSettings,
    SamplingSettings,
)
from drkernel.types import Episode, Generation, Message, Sampling, Turn


def _settings(**changes: object) -> EpisodeSettings:
    return EpisodeSettings(variant="compact").model_copy(update={"turns": 3, **changes})


async def _play(
    policy: ScriptedPolicy, gym: ObedientGym, settings: EpisodeSettings, **more: object
) -> Episode:
    return await run_episode(task(), policy, gym, settings, sample=0, **more)  # type: ignore[arg-type]


async def test_three_turns_are_judged_and_paid() -> None:
    policy = ScriptedPolicy([answer("# mismatch"), "no code here", answer("# 2.0")])
    episode = await _play(policy, ObedientGym(), _settings())
    assert [turn.status for turn in episode.turns] == ["evaluated", "no_code", "evaluated"]
    assert [turn.reward for turn in episode.turns] == [0.0, 0.0, 3.5]
    assert all(turn.valid for turn in episode.turns)
    assert episode.stopped == "turns"
    # What was said of a turn is in the next prompt, after the answer it is about.
    assert episode.turns[0].feedback.strip() in episode.turns[1].prompt[-1].content
    assert [m.role for m in episode.turns[2].prompt] == [
        "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip


async def test_a_cut_answer_is_truncated_and_valid() -> None:
    policy = ScriptedPolicy(["```python\nclass ModelNew:\n" + "    # long\n" * 500])
    settings = _settings(turns=1, sampling=SamplingSettings(max_tokens=64))
    episode = await _play(policy, ObedientGym(), settings)
    (turn,) = episode.turns
    assert (turn.status, turn.valid, turn.reward) == ("truncated", True, 0.0)
    assert turn.generation.completion_tokens == 64


async def test_a_full_context_ends_the_episode_with_a_missing_turn() -> None:
    policy = ScriptedPolicy([answer("# 1.0\n" + "# filling\n" * 120)])
    budget = BudgetSettings(context_tokens=1100, min_answer_tokens=256)
    episode = await _play(policy, ObedientGym(), _settings(turns=8, budget=budget))
    assert episode.stopped == "context"
    assert 1 < len(episode.turns) < 8
    last = episode.turns[-1]
    assert (last.status, last.valid, last.result) == ("context", False, None)
    assert last.generation.completion_tokens == 0
    assert all(turn.valid for turn in episode.turns[:-1])


async def test_dropping_the_oldest_turns_goes_on_instead() -> None:
    policy = ScriptedPolicy([answer("# 1.0\n" + "# filling\n" * 120)])
    budget = BudgetSettings(context_tokens=1400, min_answer_tokens=256)
    context = ContextSettings(rule="all", overflow="drop_oldest")
    episode = await _play(policy, ObedientGym(), _settings(turns=6, budget=budget, context=context))
    assert episode.stopped == "turns"
    assert [len(turn.prompt) for turn in episode.turns][:2] == [1, 3]
    assert len(episode.turns[-1].prompt) < 11
    for turn in episode.turns:
        assert turn.prompt[0] == episode.turns[0].prompt[0]


async def test_the_tokens_of_an_episode_end_it() -> None:
    policy = ScriptedPolicy([answer("# 1.0\n" + "# filling\n" * 120)])
    budget = BudgetSettings(episode_tokens=1000, min_answer_tokens=64)
    episode = await _play(policy, ObedientGym(), _settings(turns=8, budget=budget))
    assert episode.stopped == "context"
    assert sum(turn.generation.completion_tokens for turn in episode.turns) <= 1000


@pytest.mark.parametrize(("fails", "status"), [(2, "evaluated"), (99, "infrastructure")])
async def test_the_gyms_faults_are_retried_with_the_stored_code(fails: int, status: str) -> None:
    gym = ObedientGym()
    policy = ScriptedPolicy([answer("# 1.5"), answer(f"# infra {fails}")])
    episode = await _play(policy, gym, _settings(turns=2, infrastructure_rounds=2))
    assert [turn.status for turn in episode.turns] == ["evaluated", status]
    assert gym.asked[f"# infra {fails}\n"] == 3
    assert gym.forced == 2
    assert policy.ledger.requests == 2
    if status == "infrastructure":
        assert episode.stopped == "infrastructure"
        assert not episode.turns[1].valid


async def test_a_policy_that_fails_ends_the_episode() -> None:
    def script(messages: object, sampling: Sampling, key: str) -> Generation:
        return Generation(text="", finish="error", error="gone")

    episode = await _play(ScriptedPolicy(script), ObedientGym(), _settings())
    assert episode.stopped == "policy_error"
    assert [turn.valid for turn in episode.turns] == [False]


async def test_fast_enough_is_the_end_where_that_is_asked_for() -> None:
    policy = ScriptedPolicy([answer("# 1.1"), answer("# 2.5")])
    episode = await _play(policy, ObedientGym(), _settings(turns=5, stop_at_speedup=2.0))
    assert (episode.stopped, len(episode.turns)) == ("solved", 2)


async def test_resuming_repeats_nothing_but_what_had_failed() -> None:
    answers = [answer("# 1.1"), answer("# infra 3"), answer("# 2.0")]
    gym = ObedientGym()
    first = await _play(ScriptedPolicy(answers), gym, _settings(infrastructure_rounds=1))
    assert first.stopped == "infrastructure"
    policy, seen = ScriptedPolicy(answers), list[Turn]()
    episode = await _play(
        policy,
        gym,
        _settings(infrastructure_rounds=1),
        resume_from=first.turns,
        on_turn=seen.append,
    )
    assert [turn.status for turn in episode.turns] == ["evaluated"] * 3
    assert [turn.index for turn in seen] == [1, 2]
    assert seen[0].generation == first.turns[1].generation
    assert policy.ledger.requests == 1
    assert gym.asked["# 1.1\n"] == 1


async def test_keys_are_unique_and_room_limits_the_answer() -> None:
    keys: list[str] = []
    longest: list[int] = []

    def script(messages: list[Message], sampling: Sampling, key: str) -> str:
        keys.append(key)
        longest.append(sampling.max_tokens)
        return answer("# 1.0")

    budget = BudgetSettings(context_tokens=2000)
    await _play(ScriptedPolicy(script), ObedientGym(), _settings(budget=budget))
    assert keys == ["one/0/0", "one/0/1", "one/0/2"]
    assert longest[0] < 2000
    assert longest == sorted(longest, reverse=True)


def _rewarded(*rewards: float) -> list[Turn]:
    from made import turn

    return [turn(index, reward=reward) for index, reward in enumerate(rewards)]


def test_a_context_is_chosen_anew_when_it_is_full() -> None:
    turns = _rewarded(0, 3, 1, 0, 2, 0, 0)
    every = ContextSettings(rule="top", w=2)
    assert kept_turns(every, turns[:5]) == [1, 4]
    full = ContextSettings(rule="top", w=2, max_turns=4)
    assert kept_turns(full, turns[:3]) == [0, 1, 2]
    assert kept_turns(full, turns[:4]) == [1, 2]
    assert kept_turns(full, turns[:5]) == [1, 2, 4]
    assert kept_turns(full, turns[:6]) == [1, 4]
    assert kept_turns(ContextSettings(rule="recent", w=2), turns) == [5, 6]
    assert kept_turns(ContextSettings(rule="all"), turns) == list(range(7))
