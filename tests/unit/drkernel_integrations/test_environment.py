"""The environment: reset, step, and what it says about a step that could not be judged."""

import math

import pytest
from known_answers import NO_CODE, TASK, KnownJudge, answer

from drkernel.integrations.environment import KernelEnv, Rules
from drkernel.integrations.grading import Grading
from drkernel.prompts import estimate_tokens, first_turn
from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.task import find_task


def env_of(**rules):
    return KernelEnv([TASK], rules=Rules(**rules), judge=KnownJudge())


def test_an_episode_runs_until_its_turns_are_used_up():
    env = env_of(turns=3)
    observation, info = env.reset(seed=0)
    assert observation == first_turn(TASK)[0].content
    assert info == {"task": "t/add", "messages": [{"role": "user", "content": observation}]}
    steps = [env.step(text) for text in (NO_CODE, answer("wrong"), answer("fast"))]
    assert [reward for _, reward, *_ in steps] == [0.0, 0.0, 3.5]
    assert [(terminated, truncated) for _, _, terminated, truncated, _ in steps] == [
        (False, False),
        (False, False),
        (False, True),
    ]
    observation, _, _, _, info = steps[-1]
    roles = [message["role"] for message in info["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user", "assistant", "user"]
    assert info["messages"][-1]["content"] == observation
    assert "Speedup 2.00x" in observation
    assert (info["valid"], info["outcome"]) == (True, "correct")
    assert info["turn"].valid
    assert env.render().count("[user]") == 4
    env.close()


def test_a_fast_enough_answer_terminates():
    env = env_of(stop_at_speedup=1.5)
    env.reset()
    assert env.step(answer("plain"))[2:4] == (False, False)
    assert env.step(answer("fast"))[2:4] == (True, False)


@pytest.mark.parametrize("word", ["lost", "reference"])
def test_a_step_without_a_verdict_has_no_reward_and_ends_the_episode(word):
    env = env_of()
    env.reset()
    _, reward, terminated, truncated, info = env.step(answer(word))
    assert math.isnan(reward)
    assert (terminated, truncated) == (False, True)
    assert (info["valid"], info["outcome"], info["result"]) == (False, "infrastructure", None)
    assert not info["turn"].valid
    with pytest.raises(UsageError, match="episode is over"):
        env.step(answer("fast"))


def test_tasks_are_drawn_by_seed_or_named():
    names = ("gelu", "add", "softmax", "mlp")
    env = KernelEnv([find_task(f"builtin/{n}") for n in names], judge=KnownJudge())
    drawn = [env.reset(seed=seed)[1]["task"] for seed in (1, 2, 3, 1)]
    assert drawn[0] == drawn[3]
    assert len(set(drawn)) > 1
    assert env.reset(options={"task": "builtin/gelu"})[1]["task"] == "builtin/gelu"
    with pytest.raises(UsageError, match="no task 'builtin/nothing'"):
        env.reset(options={"task": "builtin/nothing"})


def test_another_entry_point_is_asked_for_and_found():
    task = Task(name="a", reference="class Abs: ...\n", entry_point="Abs")
    env = KernelEnv([task], judge=KnownJudge())
    observation, _ = env.reset()
    assert "`AbsNew`" in observation
    assert env.step(answer("fast", "AbsNew"))[1] == 3.5


def test_what_is_needed_is_said():
    with pytest.raises(UsageError, match="at least one task"):
        KernelEnv([])
    env = env_of()
    with pytest.raises(UsageError, match="over"):
        env.step("x")
    with pytest.raises(UsageError, match="never begun"):
        env.render()


def test_feedback_keeps_to_its_budget():
    env = KernelEnv([TASK], grading=Grading(feedback_tokens=8), judge=KnownJudge())
    env.reset()
    feedback = env.step(answer("plain"))[-1]["turn"].feedback
    assert 0 < estimate_tokens(feedback) <= 8
