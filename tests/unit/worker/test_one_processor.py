"""Where judges and candidates run that are timed on a CPU: on one processor, of one parent."""

import os

import pytest

from kernelgym.sandbox import process
from kernelgym.schema import Submission, Task
from kernelgym.worker.host import EvaluationHost
from kernelgym.worker.keeping import JudgeKey


def submission(backend):
    return Submission(task=Task(name="t", reference="r"), source="s", backend=backend)


@pytest.mark.parametrize(("asked", "wanted"), [((), "all"), ((0,), "asked"), ((4095,), "all")])
def test_a_child_stays_where_it_is_told(asked, wanted):
    everywhere = os.sched_getaffinity(0)
    asked = tuple(asked and (min(everywhere),)) if wanted == "asked" else asked
    reader, writer = os.pipe()
    if os.fork() == 0:
        process.stay_on(asked)
        os.write(writer, b",".join(str(n).encode() for n in sorted(os.sched_getaffinity(0))))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = {int(number) for number in file.read().split(",")}
    os.wait()
    assert found == (set(asked) if wanted == "asked" else everywhere)


def test_only_what_is_timed_on_a_cpu_stays_on_one_processor_and_each_on_its_own():
    host = EvaluationHost(fallback=True)
    assert host._new_judge(submission("triton")).processors == ()
    taken = []
    for _ in os.sched_getaffinity(0):
        judge = host._new_judge(submission("numba"))
        host.judges.add(judge)
        taken += judge.processors
        assert judge._flavours["candidate"] == judge._flavours["judge"]
    assert sorted(taken) == sorted(os.sched_getaffinity(0))


def test_a_judge_is_kept_for_what_is_timed_like_before():
    keys = {JudgeKey.of(submission(backend), "cpu") for backend in ("triton", "torch", "numba")}
    assert len(keys) == 2
    assert len({JudgeKey.of(submission(name), "cuda:0") for name in ("triton", "numba")}) == 1
