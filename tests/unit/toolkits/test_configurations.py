"""Kernels on other configurations: share that stays correct, rank correlation of speedups."""

import asyncio

import pytest

from kernelgym.schema import EvalResult, Failure, Outcome, Submission
from kernelgym.tasks.synth.compose import compose
from kernelgym.toolkits.configurations import evaluate_configurations, rank_correlation, transfer


def result(outcome: Outcome = Outcome.CORRECT, speedup: float | None = None) -> EvalResult:
    good = outcome is Outcome.CORRECT
    failure = None if good else Failure(stage="compare", code="value_mismatch")
    return EvalResult(task="t", outcome=outcome, correct=good, speedup=speedup, failure=failure)


def test_every_configuration_is_judged():
    draft = next(d for n in range(20) if (d := compose(3, n, range(1, 9))))
    seen: list[str] = []

    class Host:
        async def evaluate(self, submission: Submission) -> EvalResult:
            seen.append(submission.task.reference)
            return result()

    submission = Submission(task=draft.record.task(), source="x = 1")
    found = asyncio.run(evaluate_configurations(Host(), draft.record, submission, scale="lint"))
    names = [entry.name for entry in draft.record.configurations]
    assert list(found) == names
    assert seen == [draft.record.task(name, "lint").reference for name in names]


def test_only_accepted_kernels_count_and_faults_of_the_gym_do_not():
    wrong, broken = result(Outcome.MISMATCH), result(Outcome.INFRASTRUCTURE)
    results = [
        {"base": result(speedup=1.0), "tail": result(speedup=2.0)},
        {"base": result(speedup=2.0), "tail": result(speedup=3.0), "strided": wrong},
        {"base": result(speedup=3.0), "tail": wrong},
        {"base": result(speedup=4.0), "tail": broken},
        {"base": wrong, "tail": result(speedup=9.0)},
    ]
    tail, strided = transfer(results)
    assert (tail.kernels, tail.correct, tail.share_correct) == (3, 2, pytest.approx(2 / 3))
    assert tail.rank_correlation is None
    assert (strided.configuration, strided.kernels, strided.correct) == ("strided", 1, 0)
    assert transfer([]) == []


def test_rank_correlation():
    assert rank_correlation([(1, 10), (2, 20), (3, 300)]) == pytest.approx(1.0)
    assert rank_correlation([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1.0)
    # Ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4, by hand: 4.5 / sqrt(4.5 * 5).
    tied = [(1, 1), (2, 3), (2, 2), (5, 9)]
    assert rank_correlation(tied) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert rank_correlation([(1, 1), (1, 2), (1, 3)]) is None
    assert rank_correlation([(1, 1), (2, 2)]) is None
