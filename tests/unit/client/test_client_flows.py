"""The client's rules, with the server's answers written by hand: retries, patience, lost data."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from kernelgym.api import Evaluation, EvaluationRequest
from kernelgym.client import Batch, GymRefused, GymUnavailable
from kernelgym.client.batch import MAX_PART_BYTES, requests_of
from kernelgym.client.calls import Call, Flow, Pause, Reply, ask
from kernelgym.schema import EvalResult, Failure, Outcome, Submission, Task

PATIENCE_S = 30.0


def submission(source: str = "s") -> Submission:
    return Submission(task=Task(name="t", reference="r"), source=source)


class Server:
    """Answers calls from a list; remembers what it was asked and how long the flow paused."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.calls: list[Call] = []
        self.paused_s = 0.0

    def drive(self, flow: Flow[Any]) -> Any:
        answer: Reply | None = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as stop:
                return stop.value
            if isinstance(step, Pause):
                self.paused_s += step.seconds
                answer = None
            else:
                self.calls.append(step)
                answer = self.replies.pop(0)


def problem(status: int, code: str, **headers: str) -> Reply:
    body = {"type": "t", "title": "T", "status": status, "code": code, "detail": "words"}
    return Reply(status, json.dumps(body).encode(), headers)


def accepted(batch: str, *ids: str) -> Reply:
    return Reply(202, json.dumps({"batch": batch, "ids": ids}).encode())


def page(total: int, done: int, cursor: int, *keys: str) -> Reply:
    lines = [json.dumps({"id": f"id-{key}", "state": "done", "key": key}) for key in keys]
    numbers = {"total": total, "done": done, "cursor": cursor}
    headers = {f"kernelgym-{name}": str(value) for name, value in numbers.items()}
    return Reply(200, "\n".join(lines).encode(), headers)


def batch(*keys: str) -> Batch:
    return Batch([EvaluationRequest(submission=submission(), key=key) for key in keys])


@pytest.mark.parametrize("status", [0, 408, 429, 500, 502, 503, 504])
def test_passing_faults_are_retried(status: int) -> None:
    server = Server(Reply(status, fault="refused"), Reply(status), Reply(200, b"x"))
    assert server.drive(ask(Call("GET", "/"), PATIENCE_S)).body == b"x"
    assert len(server.calls) == 3
    assert server.paused_s > 0


def test_server_says_how_long_to_wait() -> None:
    server = Server(problem(429, "queue_full", **{"retry-after": "7"}), Reply(200))
    server.drive(ask(Call("GET", "/"), PATIENCE_S))
    assert server.paused_s >= 7


def test_patience_has_an_end() -> None:
    server = Server(problem(503, "draining", **{"retry-after": "60"}))
    with pytest.raises(GymUnavailable, match="503 draining: words"):
        server.drive(ask(Call("GET", "/"), PATIENCE_S))
    server = Server(Reply(0, fault="connection refused"))
    with pytest.raises(GymUnavailable, match="connection refused"):
        server.drive(ask(Call("GET", "/"), patience_s=0.0))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_refusals_are_not_retried(status: int) -> None:
    server = Server(problem(status, "a_code"))
    with pytest.raises(GymRefused, match="a_code: words") as caught:
        server.drive(ask(Call("GET", "/"), PATIENCE_S))
    assert caught.value.problem.code == "a_code"
    assert len(server.calls) == 1


def test_answer_of_something_else_than_a_gym() -> None:
    server = Server(Reply(404, b"<html>nginx</html>"))
    with pytest.raises(GymRefused, match="nginx"):
        server.drive(ask(Call("GET", "/"), PATIENCE_S))


def test_repeated_submission_has_the_same_keys_and_the_same_bytes() -> None:
    mine = batch("a", "b")
    server = Server(Reply(0, fault="timed out"), accepted("b1", "1", "2"))
    server.drive(mine.submit_flow(PATIENCE_S))
    first, second = server.calls
    assert first == second
    assert first.headers["Idempotency-Key"] == mine.parts[0].key
    assert mine.ids == ["1", "2"]


def test_results_are_followed_by_cursor() -> None:
    mine = batch("a", "b", "c")
    server = Server(
        accepted("b1", "1", "2", "3"), page(3, 2, 2, "b", "a"), page(3, 2, 2), page(3, 3, 3, "c")
    )
    server.drive(mine.submit_flow(PATIENCE_S))
    assert [e.key for e in server.drive(mine.news_flow(PATIENCE_S, 5.0))] == ["b", "a"]
    assert server.drive(mine.news_flow(PATIENCE_S, 5.0)) == []
    assert not mine.over
    assert [e.key for e in server.drive(mine.news_flow(PATIENCE_S, 5.0))] == ["c"]
    assert mine.over
    assert [call.params["after"] for call in server.calls[1:]] == ["0", "2", "2"]
    assert [e.key for e in mine.evaluations if e] == ["a", "b", "c"], "in order of the request"
    assert server.drive(mine.news_flow(PATIENCE_S, 5.0)) == []


def test_gym_that_lost_everything_is_asked_again_with_the_same_keys() -> None:
    mine = batch("a", "b")
    server = Server(
        accepted("b1", "1", "2"),
        page(2, 1, 1, "a"),
        problem(404, "not_found"),
        accepted("b2", "8", "9"),
        page(2, 2, 2, "a", "b"),
    )
    server.drive(mine.submit_flow(PATIENCE_S))
    server.drive(mine.news_flow(PATIENCE_S, 5.0))
    assert server.drive(mine.news_flow(PATIENCE_S, 5.0)) == []
    assert [e.key for e in server.drive(mine.news_flow(PATIENCE_S, 5.0))] == ["b"]
    first, second = (json.loads(server.calls[n].body or b"") for n in (0, 3))
    assert [item["key"] for item in first["items"]] == [item["key"] for item in second["items"]]


def test_gym_that_lost_its_last_second_is_read_from_the_start() -> None:
    mine = batch("a", "b", "c")
    server = Server(
        accepted("b1", "1", "2", "3"),
        page(3, 2, 2, "a", "b"),
        page(3, 1, 2),
        page(3, 3, 3, "a", "c", "b"),
    )
    server.drive(mine.submit_flow(PATIENCE_S))
    for _ in range(2):
        server.drive(mine.news_flow(PATIENCE_S, 5.0))
    assert [e.key for e in server.drive(mine.news_flow(PATIENCE_S, 5.0))] == ["c"]
    assert mine.over


def test_expired_results_are_asked_for_again() -> None:
    mine = batch("a")
    server = Server(accepted("b1", "1"), page(1, 1, 1), accepted("b2", "2"), page(1, 1, 1, "a"))
    server.drive(mine.submit_flow(PATIENCE_S))
    server.drive(mine.news_flow(PATIENCE_S, 5.0))
    server.drive(mine.news_flow(PATIENCE_S, 5.0))
    assert mine.over


def test_large_batches_travel_in_parts() -> None:
    many = Batch(requests_of(submission() for _ in range(2_500)))
    assert [len(part.requests) for part in many.parts] == [1000, 1000, 500]
    heavy = submission("x" * 900_000)
    parts = Batch(requests_of([heavy] * 20)).parts
    assert [len(part.requests) for part in parts] == [9, 9, 2]
    assert 9 * 1_800_000 < MAX_PART_BYTES < 10 * 1_800_000
    assert Batch([]).over


def test_bare_submissions_get_keys_and_options() -> None:
    [one] = requests_of(submission(), priority=9, device="cpu")
    [other] = requests_of(submission())
    assert (one.priority, one.device) == (9, "cpu")
    assert len(one.key) == 32
    assert one.key != other.key
    [kept] = requests_of(EvaluationRequest(submission=submission(), key="mine", priority=1))
    assert (kept.key, kept.priority) == ("mine", 1)
    with pytest.raises(ValueError, match="no_such_option"):
        requests_of(submission(), no_such_option=1)


def test_only_a_verdict_is_a_verdict() -> None:
    fault = Failure(stage="gym", code="worker_error")
    fields = {"task": "t", "correct": False, "failure": fault}
    infrastructure = EvalResult(outcome=Outcome.INFRASTRUCTURE, **fields)
    mismatch = EvalResult(outcome=Outcome.MISMATCH, **fields)
    cases = [("done", mismatch, mismatch), ("done", infrastructure, None), ("dead", None, None)]
    cases += [("dead", infrastructure, None), ("cancelled", None, None), ("running", None, None)]
    for state, result, expected in cases:
        evaluation = Evaluation.model_validate({"id": "i", "state": state, "result": result})
        assert evaluation.verdict == expected, state


def test_client_imports_neither_server_nor_torch() -> None:
    heavy = ("fastapi", "redis", "torch", "uvicorn", "jinja2", "prometheus_client")
    code = (
        "import sys, kernelgym.client, kernelgym.settings, kernelgym.api\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
