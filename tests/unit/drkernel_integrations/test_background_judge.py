"""The judge for code that is not asynchronous, on real evaluations of this machine's CPU."""

import asyncio
import threading
from pathlib import Path

import pytest

from drkernel.integrations.judging import BackgroundJudge, shared_judge
from drkernel.integrations.reward import compute_score
from drkernel.prompts import first_turn
from drkernel.rollout.settings import GymSettings
from kernelgym.errors import UsageError
from kernelgym.schema import Submission, Task
from kernelgym.tasks.task import find_task

CANDIDATES = Path(__file__).parents[3] / "examples" / "candidates"
HERE = GymSettings(server="here", device="cpu", evaluations=2)


def submission(candidate, task):
    return Submission(task=find_task(task), source=(CANDIDATES / candidate).read_text())


@pytest.fixture(scope="module")
def judge():
    with BackgroundJudge(HERE) as made:
        yield made


def test_verdicts_in_order_from_any_thread(judge):
    work = [
        submission("add.py", "builtin/add"),
        submission("decoy_gelu.py", "builtin/gelu"),
        submission("wrong_layer_norm.py", "builtin/layer_norm"),
    ]
    assert [r.outcome.value for r in judge(work)] == ["correct", "hack", "mismatch"]
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(judge(work[:1]))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.outcome.value for (r,) in seen] == ["correct", "correct"]
    assert judge([]) == []


def test_from_another_event_loop(judge):
    result = asyncio.run(judge.evaluate(submission("add.py", "builtin/add")))
    assert result.correct


def test_a_whole_answer_to_a_score(judge):
    task = find_task("builtin/softmax")
    source = (CANDIDATES / "softmax.py").read_text()
    row = compute_score("set", f"```python\n{source}```", task.reference, judge=judge)
    assert (row["score"], row["outcome"]) == (1.0, "correct")  # no speed without a GPU


@pytest.mark.parametrize("backend", ["triton", "numba"])
def test_the_worked_example_of_the_prompts_is_right(judge, backend):
    text = first_turn(find_task("builtin/add"), backend=backend)[0].content
    reference, answer = (part.partition("```")[0] for part in text.split("```python\n")[1:3])
    small = reference.replace("torch.randn(4096, 1024)", "torch.randn(5, 1024)")
    assert small != reference
    task = Task(name="example", reference=small)
    (result,) = judge([Submission(task=task, source=answer, backend=backend)])
    assert result.correct, result.failure


def test_a_broken_reference_has_no_verdict(judge):
    broken = find_task("builtin/add").model_copy(update={"reference": "raise ValueError('no')"})
    assert judge([Submission(task=broken, source="class ModelNew: ...")]) == [None]


def test_a_gym_that_cannot_be_opened_raises_where_it_is_asked_and_closes():
    judge = BackgroundJudge(GymSettings(server="nowhere"))
    for _ in range(2):
        with pytest.raises(UsageError, match="is no address"):
            judge([submission("add.py", "builtin/add")])
    judge.close()
    judge.close()


def test_one_judge_a_process():
    assert shared_judge() is shared_judge()
