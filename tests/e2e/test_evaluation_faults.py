"""Faults of the gym itself: typed, never the candidate's, and over with the next evaluation."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest
import pytest_asyncio
from cases import HONEST, HONEST_CASE, forward, task

from kernelgym.errors import UsageError
from kernelgym.schema import Outcome, Submission
from kernelgym.worker.host import EvaluationHost

pytestmark = pytest.mark.asyncio(loop_scope="module")
SLOW = forward("time.sleep(60)\nreturn add(x, y)")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host():
    async with EvaluationHost(jail_level="L1", concurrency=3) as made:
        yield made


def submission(source: str = HONEST, **options) -> Submission:
    options = {"trials": 1, "timeout_s": 60.0, "memory_mb": 1024} | options
    return Submission(task=task(), source=source, **options)


def living(host) -> dict[str, int]:
    """Keepers of the confined processes by role."""
    return {one.role: one.launched.pid for one in host.processes}


def at_work(host) -> set[str]:
    """Roles that live although nothing is evaluated; judges may wait for their task."""
    return set(living(host)) - {"judge"}


async def until_called(host) -> None:
    """Wait until a candidate is in its forward."""
    for _ in range(2400):
        if any(judge.stage.startswith("candidate") for judge in host.judges):
            return
        await asyncio.sleep(0.05)
    pytest.fail("no candidate was called")


async def test_a_killed_judge_is_infrastructure(host) -> None:
    running = asyncio.create_task(host.evaluate(submission(SLOW), fresh=True))
    await until_called(host)
    os.kill(living(host)["judge"], signal.SIGKILL)
    result = await running
    assert (result.outcome, result.failure.code) == (Outcome.INFRASTRUCTURE, "judge_died")
    assert not at_work(host)
    assert (await host.evaluate(submission())).outcome is Outcome.CORRECT


async def test_a_killed_zygote_is_infrastructure_and_is_replaced(host) -> None:
    running = asyncio.create_task(host.evaluate(submission(SLOW), fresh=True))
    await until_called(host)
    os.kill(host.zygote_pid, signal.SIGKILL)
    result = await running
    assert result.outcome is Outcome.INFRASTRUCTURE
    assert result.failure.code in ("judge_died", "sandbox_failed", "judge_lost")
    for _ in range(2):
        assert (await host.evaluate(submission())).outcome is Outcome.CORRECT


async def test_a_killed_candidate_is_a_crash(host) -> None:
    running = asyncio.create_task(host.evaluate(submission(SLOW), fresh=True))
    await until_called(host)
    os.kill(living(host)["candidate"], signal.SIGKILL)
    result = await running
    assert (result.outcome, result.failure.code) == (Outcome.CRASH, "killed")


async def test_a_cancelled_evaluation_leaves_nothing(host) -> None:
    running = asyncio.create_task(host.evaluate(submission(SLOW), fresh=True))
    await until_called(host)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not at_work(host)
    assert (await host.evaluate(submission())).outcome is Outcome.CORRECT


async def test_several_at_once_do_not_mix(host) -> None:
    wrong = forward("return add(x, x)")
    sources = [HONEST, wrong, HONEST, wrong]
    results = await asyncio.gather(*(host.evaluate(submission(source)) for source in sources))
    outcomes = [result.outcome for result in results]
    assert outcomes == [Outcome.CORRECT, Outcome.MISMATCH] * 2


async def test_a_judge_is_used_again_and_dropped_when_asked(host) -> None:
    first = await host.evaluate(submission())
    again = await host.evaluate(submission())
    fresh = await host.evaluate(submission(), fresh=True)
    seeds = [result.provenance.seeds["init"] for result in (first, again, fresh)]
    assert seeds[0] == seeds[1] != seeds[2]
    assert "open" not in again.provenance.stage_seconds


async def test_unknown_backends_are_the_callers_fault(host) -> None:
    with pytest.raises(UsageError, match="unknown backend"):
        await host.evaluate(submission(backend="no_such_language"))


def children(pid: int) -> list[int]:
    found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found + [below for child in found for below in children(child)]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def test_a_closed_host_leaves_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    open_before = len(os.listdir("/proc/self/fd"))
    async with EvaluationHost(jail_level="L1", idle_s=60) as host:
        await host.evaluate(HONEST_CASE.submission())
        pids = [host.zygote_pid, *children(host.zygote_pid)]
        assert len(pids) >= 5  # root, two flavours, a judge's keeper, the judge
        assert list(tmp_path.iterdir())
    for _ in range(200):  # whoever adopts the orphans of a zygote reaps them when it likes
        left = [pid for pid in pids if is_running(pid)]
        if not left:
            break
        await asyncio.sleep(0.05)
    assert not left
    groups = [path.name for path in Path("/sys/fs/cgroup").glob("**/kernelgym-*")]
    assert not [name for name in groups if int(name.split("-")[1]) in pids]
    assert not list(tmp_path.iterdir())
    assert len(os.listdir("/proc/self/fd")) == open_before


async def test_idle_judges_are_ended() -> None:
    async with EvaluationHost(jail_level="L1", idle_s=0.2) as host:
        await host.evaluate(HONEST_CASE.submission())
        for _ in range(200):
            if not living(host):
                return
            await asyncio.sleep(0.05)
        pytest.fail("the judge is still there")


async def test_processes_that_share_nothing_work_too() -> None:
    async with EvaluationHost(jail_level="L1", start="exec") as host:
        result = await host.evaluate(submission())
    assert result.outcome is Outcome.CORRECT, result.failure
