"""A client written for the authors' service, from their interface, against ours.

`AuthorsClient` knows only their routes and fields: it sends a field that does not exist, waits for
`/evaluate`, and polls `/status` and `/results` as theirs does.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gym_under_test import ServerProcess

RESPONSE_FIELDS = {
    "task_id",
    "status",
    "compiled",
    "correctness",
    "decoy_kernel",
    "reference_runtime",
    "kernel_runtime",
    "speedup",
    "metadata",
    "error_message",
    "error_code",
    "submitted_at",
    "completed_at",
    "processing_time",
}


class AuthorsClient:
    """Their reward client, reduced to what it says on the wire."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def payload(self, task_id: str, code: str, **more: Any) -> dict[str, Any]:
        return {
            "task_id": task_id,
            "reference_code": "class Model: pass",
            "kernel_code": code,
            "toolkit": "kernelbench",
            "backend_adapter": "kernelbench",
            "backend": "triton",
            "num_correct_trials": 5,
            "num_perf_trials": 100,
            "num_warmup": 3,
            "timeout": 300,
            "priority": "normal",
            "entry_point": "Model",
            "enable_profiling": True,
            "detect_decoy_kernel": True,
            **more,
        }

    def evaluate(self, task_id: str, code: str, **more: Any) -> dict[str, Any]:
        answer = self.http.post("/evaluate", json=self.payload(task_id, code, **more))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def get(self, path: str) -> httpx.Response:
        return self.http.get(path)


@pytest.fixture
def theirs(server: ServerProcess, worker: str) -> Iterator[AuthorsClient]:
    assert worker
    client = AuthorsClient(server.url)
    yield client
    client.http.close()


def name() -> str:
    return f"task-{uuid.uuid4().hex[:10]}"


def test_evaluate_answers_with_their_fields(theirs: AuthorsClient) -> None:
    task = name()
    answer = theirs.evaluate(task, f"ok and more {task}")
    assert set(answer) == RESPONSE_FIELDS
    assert (answer["task_id"], answer["status"]) == (task, "completed")
    assert (answer["compiled"], answer["correctness"], answer["decoy_kernel"]) == (
        True,
        True,
        False,
    )
    assert (answer["kernel_runtime"], answer["speedup"]) == (-1.0, 0.0)
    assert theirs.get(f"/results/{task}").json() == answer
    assert theirs.get(f"/status/{task}").json()["status"] == "completed"


def test_changed_code_is_a_new_task_and_force_refresh_evaluates_again(
    theirs: AuthorsClient, server: ServerProcess
) -> None:
    task = name()

    def evaluated() -> int:
        return int(theirs.get("/v1/queue").json()["counters"]["claimed"])

    before = evaluated()
    theirs.evaluate(task, f"ok first code {task}")
    theirs.evaluate(task, f"ok first code {task}")
    assert evaluated() == before + 1, "the same again is known"
    theirs.evaluate(task, f"ok other code {task}")
    assert evaluated() == before + 2
    theirs.evaluate(task, f"ok other code {task}", force_refresh=True)
    assert evaluated() == before + 3
    assert server.answers()


def test_running_task_is_known_and_can_be_cancelled(theirs: AuthorsClient) -> None:
    task = name()
    answers: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: answers.append(theirs.evaluate(task, f"hang {task}")))
    thread.start()
    for _ in range(600):
        if theirs.get(f"/status/{task}").json().get("status") == "processing":
            break
        time.sleep(0.05)
    assert theirs.get(f"/status/{task}").json()["status"] == "processing"
    assert theirs.get(f"/results/{task}").status_code == 404
    assert theirs.http.delete(f"/tasks/{task}").status_code == 200
    thread.join(60)
    [answer] = answers
    assert (answer["status"], answer["error_code"]) == ("failed", "SYSTEM_ERROR")
    assert answer["metadata"] == {"infrastructure": True}


def test_batch(theirs: AuthorsClient) -> None:
    tasks = [theirs.payload(name(), f"ok code {uuid.uuid4().hex}") for _ in range(3)]
    tasks.append(theirs.payload(name(), f"reference {uuid.uuid4().hex}"))
    answer = theirs.http.post("/evaluate/batch", json={"batch_id": "b", "tasks": tasks}).json()
    assert (answer["total_tasks"], answer["completed_tasks"], answer["failed_tasks"]) == (4, 3, 1)
    assert [one["task_id"] for one in answer["results"]] == [one["task_id"] for one in tasks]
    assert answer["batch_status"] == "completed"
    failed = answer["results"][3]
    assert failed["error_code"] == "SYSTEM_ERROR"
    assert failed["metadata"]["infrastructure"] is True


def test_observation(theirs: AuthorsClient) -> None:
    health = theirs.get("/health").json()
    assert health["status"] == "healthy"
    assert health["total_processed"] >= 1
    assert set(theirs.get("/queue/status").json()) == {
        "pending",
        "pending_by_prefix",
        "worker_queues",
    }
    assert theirs.get("/workers/status").json()["stub-1"]["status"] == "online"
    assert theirs.get("/").json()["name"] == "KernelGYM"
    assert theirs.get("/status/nobody").status_code == 404


@pytest.mark.parametrize("missing", ["task_id", "kernel_code", "reference_code"])
def test_schema_errors_are_400(theirs: AuthorsClient, missing: str) -> None:
    payload = theirs.payload(name(), "some longer code")
    del payload[missing]
    assert theirs.http.post("/evaluate", json=payload).status_code == 400
