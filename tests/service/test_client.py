"""The clients against a real gym: map, results, cancel, a gym that goes away and comes back."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path

import pytest
from gym_under_test import ServerProcess, start_broker, start_stub_worker, stop, submission

from kernelgym.client import AsyncGym, Gym, GymUnavailable
from kernelgym.schema import Submission


def unique(source: str = "ok") -> Submission:
    return submission(source=f"{source} {uuid.uuid4().hex}")


@pytest.mark.usefixtures("worker")
def test_map_returns_verdicts_in_order_and_none_for_the_gyms_faults(server: ServerProcess) -> None:
    work = [unique(), unique("infra"), unique(), unique("reference"), unique("unsupported")]
    work += [unique("raise"), unique("bug"), unique("infra-once")]
    calls: list[tuple[int, int]] = []
    with Gym(server.url, name="map") as gym:
        verdicts = gym.map(work, progress=lambda done, total: calls.append((done, total)))
    hashes = [one.provenance.source_hash if one else None for one in verdicts]
    expected = [work[n].source_hash if n in (0, 2, 7) else None for n in range(8)]
    assert hashes == expected
    assert calls[-1] == (8, 8)


@pytest.mark.usefixtures("worker")
def test_why_there_is_no_verdict(server: ServerProcess) -> None:
    work = [unique("infra"), unique("reference"), unique("unsupported"), unique("raise")]
    with Gym(server.url, name="why") as gym:
        ends = gym.wait(gym.submit(work))
    found = []
    for one in ends:
        assert one
        failure = one.result.failure if one.result else None
        found.append((one.state, one.reason, one.attempts, failure.code if failure else ""))
    # max_retries is 1 here; what another attempt would only repeat is not repeated.
    assert found == [
        ("dead", "retries", 2, "worker_error"),
        ("done", "", 1, "reference_forward_error"),
        ("done", "", 1, "unsupported"),
        ("dead", "retries", 2, ""),
    ]


@pytest.mark.usefixtures("worker")
def test_class_without_a_worker_is_said_at_once_and_at_the_end(
    server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with Gym(server.url, name="absent") as gym:
        batch = gym.submit([unique(), unique()], device="gpu", deadline_s=0.5)
        gym.submit([unique()], device="gpu", deadline_s=0.5)
        served = gym.submit([unique()], device="cpu")
        ends = gym.wait(batch, timeout_s=20)
        queue = gym.queue()
    [warning] = batch.warnings
    assert warning.startswith("no worker of class gpu is connected; workers of ")
    assert caplog.messages == [warning], "each sentence once, however many batches there are"
    assert served.warnings == []
    assert {"any", "cpu"} <= set(queue.connected)
    assert "gpu" not in queue.connected
    for one in ends:
        assert one
        assert (one.state, one.reason, one.attempts) == ("dead", "deadline", 0)
        assert "no worker of class gpu has been connected since it was submitted" in one.detail
        assert "kernelgym worker" in one.detail


@pytest.mark.usefixtures("worker")
def test_deadline_that_passes_in_a_workers_hands_says_so(server: ServerProcess) -> None:
    with Gym(server.url, name="slow") as gym:
        [end] = gym.wait(gym.submit([unique("sleep 30")], deadline_s=1.0), timeout_s=20)
    assert end
    assert (end.state, end.reason, end.attempts) == ("dead", "deadline", 1)
    assert end.detail == "a worker had it, and had not finished it"


@pytest.mark.usefixtures("worker")
async def test_asyncio_client(server: ServerProcess) -> None:
    async with AsyncGym(server.url, name="aio") as gym:
        work = [unique() for _ in range(5)]
        verdicts = await gym.map(work)
        assert [one.provenance.source_hash for one in verdicts if one] == [
            one.source_hash for one in work
        ]
        batch = await gym.submit([unique("hang")], device="nowhere")
        assert (await gym.wait(batch, timeout_s=0.3)) == [None]
        assert (await gym.get(batch.ids[0])).state == "queued"
        assert set((await gym.cancel(batch)).values()) == {"cancelled"}
        [end] = await gym.wait(batch, timeout_s=10)
        assert end
        assert (end.state, end.verdict) == ("cancelled", None)
        assert (await gym.cancel(batch.ids[0])) == {batch.ids[0]: "cancelled"}
        assert (await gym.queue()).states["done"] >= 5
        assert "stub-1" in [one.name for one in await gym.workers()]


def test_gym_that_does_not_answer(server: ServerProcess) -> None:
    assert server.url
    with Gym("http://127.0.0.1:9", patience_s=0.5) as gym:
        with pytest.raises(GymUnavailable, match="does not answer") as caught:
            gym.map([unique()])
        assert "kernelgym up" in str(caught.value.hint)


def test_gym_that_dies_and_comes_back_with_and_without_its_data(tmp_path: Path) -> None:
    """Server and broker killed in the middle of `map`; then all data gone as well."""
    broker = start_broker(tmp_path / "broker")
    server = ServerProcess(tmp_path, broker.url, max_retries=20)
    server.start()
    worker = start_stub_worker(server, "w", slots=2)
    work = [unique("sleep 0.05") for _ in range(120)]
    verdicts: list[str | None] = []

    def client() -> None:
        with Gym(server.url, patience_s=120) as gym:
            verdicts.extend(r.provenance.source_hash if r else None for r in gym.map(work))

    thread = threading.Thread(target=client)
    thread.start()
    try:
        for data_survives in (True, False):
            time.sleep(1.0)
            server.kill()
            assert broker.process is not None
            broker.process.kill()
            broker.process.wait()
            if not data_survives:
                for path in (tmp_path / "broker" / "appendonlydir").iterdir():
                    path.unlink()
            old, broker = broker, start_broker(tmp_path / "broker")
            old.stop()
            server.start()
        thread.join(120)
        assert verdicts == [one.source_hash for one in work]
    finally:
        stop(worker)
        server.stop()
        broker.stop()
