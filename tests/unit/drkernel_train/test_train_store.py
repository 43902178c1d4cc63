"""One evaluation a content, for all who share the store; faults are never kept."""

import asyncio

import pytest
from rl_world import CountingJudge, tasks, verdict

from drkernel.train.store import EvaluationStore, StoredEvaluator, is_reused
from kernelgym.schema import EvalResult, Failure, Outcome, Submission


@pytest.fixture
def store(tmp_path):
    opened = EvaluationStore(tmp_path / "deep" / "evaluations.db")
    yield opened
    opened.close()


def submission(number=4, task=0, **changes):
    return Submission(task=tasks(2)[task], source=f"n = {number}", **changes)


async def test_the_same_candidate_is_judged_once(store, tmp_path):
    judge = CountingJudge()
    first = StoredEvaluator(judge, store, device="NVIDIA H200")
    new = await first.evaluate(submission(), key="a")
    again = await first.evaluate(submission(), key="b")
    other = EvaluationStore(tmp_path / "deep" / "evaluations.db")  # another run
    second = StoredEvaluator(judge, other, device="NVIDIA H200")
    shared = await second.evaluate(submission())
    other.close()
    assert judge.sources == ["n = 4"] and store.count() == 1
    assert not is_reused(new) and is_reused(again) and is_reused(shared)
    assert again.speedup == new.speedup and again.outcome is new.outcome
    assert (first.asked, first.reused) == (2, 1)


async def test_what_decides_a_verdict_is_in_the_key(store):
    judge = CountingJudge()
    gym = StoredEvaluator(judge, store, device="NVIDIA H200")
    for one in (
        submission(),
        submission(number=5),
        submission(task=1),
        submission(protocol="strict"),
        submission(baseline="torch_compile"),
    ):
        assert not is_reused(await gym.evaluate(one))
    elsewhere = StoredEvaluator(judge, store, device="NVIDIA B200")
    assert not is_reused(await elsewhere.evaluate(submission()))
    assert len(judge.sources) == 6


async def test_at_the_same_moment_one_of_them_judges(store):
    class Slow(CountingJudge):
        async def evaluate(self, submission, *, key="", force=False):
            await asyncio.sleep(0)
            return await super().evaluate(submission)

    judge = Slow()
    gym = StoredEvaluator(judge, store, device="cpu")
    results = await asyncio.gather(*(gym.evaluate(submission()) for _ in range(5)))
    assert len(judge.sources) == 1
    assert sum(is_reused(result) for result in results) == 4


async def test_force_judges_anew_and_the_first_verdict_stays(store):
    class Changing(CountingJudge):
        async def evaluate(self, submission, *, key="", force=False):
            self.sources.append(submission.source)
            return verdict(f"n = {3 + len(self.sources)}")

    gym = StoredEvaluator(Changing(), store, device="cpu")
    first = await gym.evaluate(submission())
    forced = await gym.evaluate(submission(), force=True)
    kept = await gym.evaluate(submission())
    assert (first.speedup, forced.speedup, kept.speedup) == (1.0, 1.25, 1.0)


async def test_faults_are_not_kept(store):
    failure = Failure(stage="start", code="gym", message="the gym failed")
    answers = [
        None,
        EvalResult(task="t", outcome=Outcome.INFRASTRUCTURE, correct=False, failure=failure),
    ]

    class Failing(CountingJudge):
        async def evaluate(self, submission, *, key="", force=False):
            return answers.pop(0) if answers else await super().evaluate(submission)

    gym = StoredEvaluator(Failing(), store, device="cpu")
    assert await gym.evaluate(submission()) is None
    assert (await gym.evaluate(submission())).outcome is Outcome.INFRASTRUCTURE
    assert not is_reused(await gym.evaluate(submission()))
