"""Every built-in task's reference, judged as its own candidate, is correct; three protocols."""

import asyncio

import pytest

from kernelgym.schema import Submission
from kernelgym.tasks.registry import builtin_task, builtin_tasks
from kernelgym.worker.host import EvaluationHost

NAMES = [task.name for task in builtin_tasks()]
PROTOCOLS = ("standard", "kernelbench", "strict")


def own_reference(name, **fields):
    task = builtin_task(name)
    return Submission(
        task=task, source=task.reference, entry_point="Model", backend="torch", trials=2, **fields
    )


@pytest.fixture(scope="module")
def results():
    """One host for all of them: (task, protocol) to result, and bf16 under `standard`."""

    async def judge():
        async with EvaluationHost(fallback=True) as host:
            keys = [(name, protocol, "fp32") for name in NAMES for protocol in PROTOCOLS]
            keys += [(name, "standard", "bf16") for name in NAMES]
            found = await asyncio.gather(
                *(host.evaluate(own_reference(n, protocol=p, precision=q)) for n, p, q in keys)
            )
            return dict(zip(keys, found, strict=True))

    return asyncio.run(judge())


@pytest.mark.parametrize("name", NAMES)
def test_reference_is_correct_against_itself(results, name):
    for protocol in PROTOCOLS:
        result = results[name, protocol, "fp32"]
        assert result.correct, (protocol, result.failure)
        assert all(trial.passed for trial in result.trials)
        assert result.provenance.protocol == protocol


@pytest.mark.parametrize("name", NAMES)
def test_reference_is_correct_against_itself_in_bf16(results, name):
    result = results[name, "standard", "bf16"]
    assert result.correct, result.failure
