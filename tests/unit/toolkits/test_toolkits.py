"""Toolkits: cases with tolerances of their own, and agreement without a reference."""

import asyncio
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from kernelgym.errors import UsageError
from kernelgym.schema import EvalResult, Failure, Outcome, Submission, Trial
from kernelgym.toolkits.compare import Candidate, CompareResult, compare
from kernelgym.toolkits.simple import Case, SimpleResult, evaluate_cases
from kernelgym.toolkits.values import TensorValue, rms, source_of
from kernelgym.worker.host import EvaluationHost

DOUBLE = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = factor
    def forward(self, x):
        return x * self.factor
"""
INPUTS = "def get_inputs():\n    return [torch.randn(4, 8)]\n"


def tensor(*data: float) -> TensorValue:
    return TensorValue(dtype="float32", shape=(len(data),), data=data)


def case(*expected: float, **options: object) -> Case:
    return Case(inputs=(tensor(1.0, 2.0, -3.0),), expected=tensor(*expected), **options)


def on_a_host(work: Callable[[EvaluationHost], object]) -> object:
    async def run() -> object:
        async with EvaluationHost(fallback=True, concurrency=1) as host:
            return await work(host)  # type: ignore[misc]

    return asyncio.run(run())


class Scripted:
    """Answers in place of a host, by what the submission's task and source are."""

    def __init__(self, answer: Callable[[Submission], EvalResult]) -> None:
        self.answer = answer
        self.seen: list[Submission] = []

    async def evaluate(self, submission: Submission) -> EvalResult:
        self.seen.append(submission)
        return self.answer(submission)


def verdict(outcome: Outcome, *, error: float | None = 0.0, status: str = "ok") -> EvalResult:
    passed = outcome is Outcome.CORRECT
    trial = Trial(
        index=0, mode="eval", passed=passed, status=status, max_abs_error=error, max_rel_error=error
    )
    failure = None if passed else Failure(stage="compare", code=status, message="not alike")
    return EvalResult(task="t", outcome=outcome, correct=passed, failure=failure, trials=(trial,))


def test_values_become_source():
    value = ((tensor(1.0, float("nan")), 3, "a"), None, True)  # the arguments of a call
    made = eval(source_of(value), {"torch": __import__("torch")})  # our own text
    assert made[0][0].dtype.is_floating_point
    assert made[0][0].isnan().tolist() == [False, True]
    assert made[0][1:] == (3, "a")
    assert made[1:] == (None, True)
    assert rms((tensor(3.0, 4.0, float("inf")), 5)) == pytest.approx(12.5**0.5)
    with pytest.raises(ValidationError, match="does not hold"):
        TensorValue(dtype="float32", shape=(2, 2), data=(1.0,))


@pytest.mark.parametrize(
    ("outcome", "error", "status", "options", "passed"),
    [
        (Outcome.CORRECT, 0.0, "ok", {}, True),
        (Outcome.CORRECT, 1e-3, "ok", {}, False),
        (Outcome.MISMATCH, 0.2, "value_mismatch", {"atol": 0.3}, True),
        (Outcome.MISMATCH, 0.2, "value_mismatch", {"atol": 0.1, "rtol": 0.0}, False),
        (Outcome.MISMATCH, None, "shape_mismatch", {"atol": 9.0}, False),
        (Outcome.CRASH, None, "crash", {"atol": 9.0}, False),
    ],
)
def test_the_tolerance_of_the_case_decides(
    outcome: Outcome, error: float | None, status: str, options: dict[str, float], passed: bool
):
    host = Scripted(lambda _: verdict(outcome, error=error, status=status))
    result = asyncio.run(evaluate_cases(host, DOUBLE, [case(2.0, 4.0, -6.0, **options)]))
    assert result.passed is passed
    assert bool(result.cases[0].reason) is not passed


def test_no_case_is_no_success():
    host = Scripted(lambda _: verdict(Outcome.CORRECT))
    assert not asyncio.run(evaluate_cases(host, DOUBLE, [])).passed


def test_agreement_needs_both_directions():
    def answer(submission: Submission) -> EvalResult:
        forged = submission.task.name == "liar"  # where it is the reference everything is right
        return verdict(Outcome.CORRECT if forged else Outcome.MISMATCH, status="value_mismatch")

    candidates = {name: Candidate(source=name) for name in ("liar", "honest")}
    found = asyncio.run(compare(Scripted(answer), candidates, INPUTS))
    assert [pair.relation for pair in found.pairs] == ["disagree"]
    assert found.groups == (("liar",), ("honest",))


def test_a_failure_is_not_a_disagreement():
    host = Scripted(lambda _: verdict(Outcome.CRASH, error=None, status="crash"))
    candidates = {name: Candidate(source=name) for name in ("a", "b")}
    assert asyncio.run(compare(host, candidates, INPUTS)).pairs[0].relation == "failed"
    with pytest.raises(UsageError, match="at least two"):
        asyncio.run(compare(host, {"a": Candidate(source="a")}, INPUTS))


def test_both_toolkits_on_a_real_host():
    cases = [
        case(2.0, 4.0, -6.0, name="right"),
        case(2.0, 4.0, -6.5, name="wrong"),
        case(2.0, 4.0, -6.5, name="wide", atol=1.0),
        case(3.0, 6.0, -9.0, name="thrice", init=(3.0,)),
        case(2.0, 4.0, name="shape", atol=9.0),
    ]
    torch_ways = {
        "twice": Candidate(source=DOUBLE),
        "added": Candidate(source=DOUBLE.replace("x * self.factor", "x + x")),
        "squared": Candidate(source=DOUBLE.replace("x * self.factor", "x * x")),
    }
    inputs = "import torch\n" + INPUTS

    async def work(host: EvaluationHost) -> tuple[SimpleResult, CompareResult]:
        simple = await evaluate_cases(host, DOUBLE, cases, backend="torch")
        return simple, await compare(host, torch_ways, inputs, trials=2)

    simple, compared = on_a_host(work)  # type: ignore[misc]
    assert {c.name: c.passed for c in simple.cases} == {
        "right": True,
        "wrong": False,
        "wide": True,
        "thrice": True,
        "shape": False,
    }, [c.reason for c in simple.cases]
    assert compared.groups == (("twice", "added"), ("squared",)), compared.pairs
