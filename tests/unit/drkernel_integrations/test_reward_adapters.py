"""Rewards in the forms that verl and TRL ask for."""

import asyncio
import inspect
import math

import pytest
from known_answers import CUT, NO_CODE, TASK, KnownJudge, answer

from drkernel.integrations import reward
from drkernel.integrations.grading import Grading
from drkernel.integrations.reward import (
    KernelReward,
    Unjudged,
    compute_score,
    compute_score_async,
    task_of,
)
from drkernel.rollout.settings import JudgingSettings, RewardSettings
from kernelgym.errors import UsageError


def score(text, judge=None, **fields):
    """As verl's reward manager calls it: by keyword, with arguments of its own."""
    return compute_score(
        data_source="set",
        solution_str=text,
        ground_truth=TASK.reference,
        extra_info={"entry_point": "Model", "num_turns": None},
        judge=judge or KnownJudge(),
        reward_router_address="http://x",
        reward_model_tokenizer=None,
        **fields,
    )


@pytest.mark.parametrize(
    ("text", "points", "outcome"),
    [
        (answer("plain"), 1 + 1 + 0.5, "correct"),
        (answer("fast"), 1 + 2 + 0.5, "correct"),
        (answer("untimed"), 1.0, "correct"),
        (answer("wrong"), 0.0, "mismatch"),
        (answer("hack"), 0.0, "hack"),
        (NO_CODE, 0.0, "no_code"),
        (CUT, 0.0, "truncated"),
    ],
)
def test_scores(text, points, outcome):
    row = score(text)
    assert (row["score"], row["outcome"]) == (points, outcome)
    assert row["correct"] == (outcome == "correct")
    assert row["hack"] == (outcome == "hack")
    assert set(row) == set(score(answer("plain")))
    assert isinstance(row["score"], float)


@pytest.mark.parametrize("word", ["lost", "reference"])
def test_without_a_verdict_there_is_no_score(word):
    with pytest.raises(Unjudged, match="no verdict on an answer to reference"):
        score(answer(word))


def test_what_was_not_measured_is_nan_and_what_has_no_code_is_not_judged():
    judge = KnownJudge()
    assert math.isnan(score(answer("untimed"), judge)["speedup"])
    score(NO_CODE, judge)
    assert len(judge.asked) == 1


def test_rows_name_their_task_and_its_class():
    info = {"entry_point": "Abs", "module_name": "pkg.Abs", "uuid": 7, "level": None}
    task = task_of("drkernel", "class Abs: ...", info)
    assert (task.name, task.entry_point, task.origin) == ("pkg.Abs", "Abs", "drkernel")
    judge = KnownJudge()
    compute_score("d", answer("plain", "AbsNew"), "class Abs: ...", info, judge=judge)
    ((submission,),) = judge.asked
    assert submission.entry_point == "AbsNew"
    assert task_of("d", "x").name == "reference"
    assert task_of("d", "x", {"uuid": 7}).name == "7"


def test_rules_backends_and_protocols_by_name():
    judge = KnownJudge()
    fields = {"rule": "released", "backend": "numba", "protocol": "strict"}
    assert score(answer("plain"), judge, **fields)["score"] == 1.25
    ((submission,),) = judge.asked
    assert (submission.backend, submission.protocol) == ("numba", "strict")
    with pytest.raises(ValueError, match="rule"):
        score(answer("plain"), rule="generous")


def test_verl_can_tell_which_one_to_await():
    names = ["data_source", "solution_str", "ground_truth", "extra_info"]
    assert not inspect.iscoroutinefunction(compute_score)
    assert inspect.iscoroutinefunction(compute_score_async)
    for function in (compute_score, compute_score_async):
        assert list(inspect.signature(function).parameters)[:4] == names


async def test_awaited_scores_are_the_same(monkeypatch):
    class Shared:
        async def evaluate(self, submission):
            (result,) = KnownJudge()([submission])
            return result

    monkeypatch.setattr(reward, "shared_judge", Shared)
    texts = [answer("fast"), answer("wrong"), NO_CODE]
    rows = await asyncio.gather(
        *(compute_score_async("d", text, TASK.reference, None) for text in texts)
    )
    assert [row["score"] for row in rows] == [3.5, 0.0, 0.0]
    with pytest.raises(Unjudged):
        await compute_score_async("d", answer("lost"), TASK.reference)


def trl(texts, judge=None, function=None, **columns):
    """As GRPOTrainer calls it."""
    columns.setdefault("reference", [TASK.reference] * len(texts))
    function = function or KernelReward(judge=judge or KnownJudge())
    return function(
        prompts=["p"] * len(texts),
        completions=texts,
        completion_ids=[[1]] * len(texts),
        trainer_state=None,
        log_extra=None,
        **columns,
    )


def test_trl_gets_one_value_a_completion_and_none_without_a_verdict():
    judge = KnownJudge()
    texts = [answer("fast"), NO_CODE, answer("lost"), answer("wrong"), answer("reference")]
    assert trl(texts, judge) == [3.5, 0.0, None, 0.0, None]
    assert [len(batch) for batch in judge.asked] == [4]


def test_trl_in_chats():
    chat = [
        [{"role": "assistant", "content": answer("fast")}],
        [
            {"role": "assistant", "content": answer("wrong")},
            {"role": "tool", "content": "x"},
            {"role": "assistant", "content": answer("plain")},
        ],
        [],
    ]
    assert trl(chat) == [3.5, 2.5, 0.0]


def test_trl_reads_columns_and_logs_shares():
    judge, logged = KnownJudge(), {}
    function = KernelReward(
        reference_column="code",
        grading=Grading(
            judging=JudgingSettings(backend="numba"), reward=RewardSettings(rule="released")
        ),
        judge=judge,
        name="speed",
    )
    texts = [answer("fast", "AbsNew"), answer("lost", "AbsNew"), answer("hack", "AbsNew")]
    rewards = trl(
        texts,
        function=function,
        code=["class Abs: ..."] * 3,
        entry_point=["Abs"] * 3,
        name=["a", "b", "c"],
        log_metric=logged.__setitem__,
    )
    assert rewards == [1.75, None, 0.0]
    assert function.__name__ == "speed"
    assert [s.task.name for s in judge.asked[0]] == ["a", "b", "c"]
    assert {s.entry_point for s in judge.asked[0]} == {"AbsNew"}
    assert logged == {
        "kernel/unjudged": pytest.approx(1 / 3),
        "kernel/correct": 0.5,
        "kernel/hack": 0.5,
    }


def test_trl_without_references_is_told_which_column_is_missing():
    with pytest.raises(UsageError, match="no column 'code'"):
        trl(["x"], function=KernelReward(reference_column="code"))
