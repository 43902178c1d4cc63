"""The HTTP interface: submission, idempotency, waiting, cancelling, errors, limits."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gym_under_test import ServerProcess, submission


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    """A client of its own, so that tests do not see each other's evaluations."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    with server.http(headers={"Kernelgym-Client": name}) as client:
        yield client


def body(source: str = "ok", **fields: Any) -> dict[str, Any]:
    """A request that differs from every other one."""
    marked = f"{source} {uuid.uuid4().hex}"
    return {"submission": json.loads(submission(source=marked).model_dump_json()), **fields}


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def follow(http: httpx.Client, batch: str, count: int) -> list[dict[str, Any]]:
    """All results of a batch, through the cursor."""
    found: list[dict[str, Any]] = []
    for _ in range(50):
        after = found[-1]["cursor"] if found else 0
        params = {"after": after, "wait": 10, "limit": 3}
        found += lines(http.get(f"/v1/batches/{batch}/results", params=params))
        if len(found) >= count:
            break
    return found


@pytest.mark.usefixtures("worker")
def test_single_evaluation_from_submission_to_verdict(http: httpx.Client) -> None:
    sent = body()
    accepted = http.post("/v1/evaluations", json=sent)
    assert accepted.status_code == 202
    [evaluation] = accepted.json()["ids"]
    [line] = follow(http, accepted.json()["batch"], 1)
    assert line["id"] == evaluation
    assert line["state"] == "done"
    assert line["result"]["outcome"] == "correct"
    read = http.get(f"/v1/evaluations/{evaluation}").json()
    assert read["result"] == line["result"]
    assert read["attempts"] == 1


@pytest.mark.usefixtures("worker")
def test_batch_is_followed_by_cursor_without_loss_or_repetition(http: httpx.Client) -> None:
    items = [body(key=f"k{n}") for n in range(20)]
    accepted = http.post("/v1/evaluations", json={"items": items}).json()
    assert len(set(accepted["ids"])) == 20
    found = follow(http, accepted["batch"], 20)
    assert [one["cursor"] for one in found] == list(range(1, 21))
    assert sorted(one["id"] for one in found) == sorted(accepted["ids"])
    assert {one["key"] for one in found} == {f"k{n}" for n in range(20)}
    over = http.get(f"/v1/batches/{accepted['batch']}/results", params={"after": 20, "wait": 30})
    assert over.text == "", "a finished batch does not keep anybody waiting"
    assert over.headers["kernelgym-total"] == over.headers["kernelgym-done"] == "20"


def test_same_key_same_content_is_the_same_evaluation(http: httpx.Client) -> None:
    sent = body(key="mine", device="nowhere")
    first = http.post("/v1/evaluations", json=sent).json()
    again = http.post("/v1/evaluations", json={**sent, "priority": 9, "deadline_s": 77}).json()
    assert first["ids"] == again["ids"]
    other = http.post("/v1/evaluations", json=body(key="mine", device="nowhere"))
    assert other.status_code == 422
    assert other.json()["code"] == "key_conflict"
    assert other.json()["index"] == 0


def test_same_batch_key_is_the_same_batch(http: httpx.Client) -> None:
    items = {"items": [body(device="nowhere") for _ in range(3)]}
    headers = {"Idempotency-Key": "whole-batch"}
    first = http.post("/v1/evaluations", json=items, headers=headers).json()
    again = http.post("/v1/evaluations", json=items, headers=headers).json()
    assert again == {**first, "repeated": True}
    items["items"].pop()
    other = http.post("/v1/evaluations", json=items, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "key_conflict")


def test_conflict_in_a_batch_stores_nothing_of_it(http: httpx.Client) -> None:
    http.post("/v1/evaluations", json=body(key="taken", device="nowhere"))
    before = http.get("/v1/queue").json()["counters"]["submitted"]
    items = [body(key="free", device="nowhere"), body(key="taken", device="nowhere")]
    refused = http.post("/v1/evaluations", json={"items": items})
    assert (refused.status_code, refused.json()["index"]) == (422, 1)
    assert http.get("/v1/queue").json()["counters"]["submitted"] == before


@pytest.mark.usefixtures("worker")
def test_identical_content_shares_one_evaluation_unless_forced(http: httpx.Client) -> None:
    sent = body()
    first = http.post("/v1/evaluations", json=sent).json()
    follow(http, first["batch"], 1)
    shared = http.post("/v1/evaluations", json=sent).json()
    assert shared["ids"] != first["ids"]
    [line] = follow(http, shared["batch"], 1)
    assert (line["state"], line["attempts"]) == ("done", 0)
    assert line["result"]["outcome"] == "correct"
    forced = http.post("/v1/evaluations", json={**sent, "force": True}).json()
    [line] = follow(http, forced["batch"], 1)
    assert line["attempts"] == 1


@pytest.mark.usefixtures("worker")
def test_long_poll_answers_when_something_ends(http: httpx.Client) -> None:
    accepted = http.post("/v1/evaluations", json=body("sleep 0.5")).json()
    started = time.monotonic()
    [line] = lines(http.get(f"/v1/batches/{accepted['batch']}/results", params={"wait": 30}))
    assert line["state"] == "done"
    assert time.monotonic() - started < 25


@pytest.mark.usefixtures("worker")
def test_cancelling(http: httpx.Client, server: ServerProcess) -> None:
    waiting = http.post("/v1/evaluations", json=body(device="nowhere")).json()["ids"][0]
    assert http.delete(f"/v1/evaluations/{waiting}").json()["states"] == {waiting: "cancelled"}
    batch = http.post(
        "/v1/evaluations", json={"items": [body("hang"), body(device="nowhere")]}
    ).json()
    running = batch["ids"][0]
    while http.get(f"/v1/evaluations/{running}").json()["state"] == "queued":
        time.sleep(0.05)
    with server.http(headers={"Kernelgym-Client": "stranger"}) as stranger:
        assert stranger.delete(f"/v1/evaluations/{running}").status_code == 404
        assert stranger.get(f"/v1/evaluations/{running}").status_code == 404
        assert stranger.get(f"/v1/batches/{batch['batch']}/results").status_code == 404
        assert stranger.delete(f"/v1/batches/{batch['batch']}").status_code == 404
    states = http.delete(f"/v1/batches/{batch['batch']}").json()["states"]
    assert set(states.values()) == {"cancelled"}
    assert http.delete(f"/v1/evaluations/{running}").json()["states"] == {running: "cancelled"}
    # The worker hears of it and is free again.
    for _ in range(400):
        [stub] = [w for w in http.get("/v1/workers").json() if w["name"] == "stub-1"]
        if stub["info"]["devices"][0]["held"] == 0:
            return
        time.sleep(0.05)
    pytest.fail("the worker still holds a cancelled evaluation")


def test_deadline_ends_an_evaluation_nobody_takes(http: httpx.Client) -> None:
    accepted = http.post("/v1/evaluations", json=body(device="nowhere", deadline_s=0.2)).json()
    [line] = lines(http.get(f"/v1/batches/{accepted['batch']}/results", params={"wait": 30}))
    assert (line["state"], line["reason"], line["result"]) == ("dead", "deadline", None)


@pytest.mark.parametrize(
    ("content", "kind", "status", "code"),
    [
        (b"{", "application/json", 400, "invalid_request"),
        (b'"x"', "application/json", 400, "invalid_request"),
        (b"[" * 100_000, "application/json", 400, "invalid_request"),
        (b'{"submission": NaN}', "application/json", 400, "invalid_request"),
        (b"{}", "text/plain", 400, "invalid_request"),
        (b"x" * (1 << 20) + b"x", "application/json", 413, "too_large"),
    ],
)
def test_malformed_requests(
    http: httpx.Client, content: bytes, kind: str, status: int, code: str
) -> None:
    answer = http.post("/v1/evaluations", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"


def test_body_of_undeclared_length_is_cut_off(http: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 65_536

    answer = http.post(
        "/v1/evaluations", content=chunks(), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_invalid_item_is_named_and_its_content_is_not_echoed(http: httpx.Client) -> None:
    bad = body()
    bad["submission"]["trials"] = "secret-value"
    bad["submission"]["no_such_field"] = "another-secret"
    answer = http.post("/v1/evaluations", json={"items": [body(), bad]})
    problem = answer.json()
    assert (answer.status_code, problem["index"]) == (400, 1)
    where = {one["where"].rsplit(".", 1)[1] for one in problem["errors"]}
    assert where == {"trials", "no_such_field"}
    assert "secret" not in answer.text


def test_limits(http: httpx.Client) -> None:
    too_many = http.post("/v1/evaluations", json={"items": [body() for _ in range(101)]})
    assert (too_many.status_code, too_many.json()["code"]) == (413, "too_large")
    items = {"items": [body(key=f"k{n}", device="nowhere") for n in range(100)]}
    answers = [http.post("/v1/evaluations", json=items) for _ in range(6)]
    assert answers[-1].status_code == 202, "the very same items are known, not more"
    more = [
        http.post("/v1/evaluations", json={"items": [body(device="nowhere") for _ in range(100)]})
        for _ in range(6)
    ]
    assert [one.status_code for one in more].count(429) >= 1
    assert more[-1].json()["code"] == "queue_full"
    assert int(more[-1].headers["retry-after"]) > 0


def test_unknown_things_are_404(http: httpx.Client) -> None:
    for path in ("/v1/evaluations/abc", "/v1/batches/abc/results", "/nowhere", "/ui/nowhere"):
        answer = http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert http.put("/v1/queue").json()["code"] == "method_not_allowed"


def test_page_of_another_site_cannot_use_a_loopback_gym(http: httpx.Client) -> None:
    answer = http.get("/v1/queue", headers={"Host": "evil.example"})
    assert answer.status_code == 400


def test_anonymous_clients_are_not_workers(http: httpx.Client) -> None:
    claim = {"request": "r", "classes": ["any"]}
    assert http.post("/v1/workers/w/claim", json=claim).json()["code"] == "forbidden"
    assert http.delete("/v1/workers/stub-1").json()["code"] == "forbidden"
    bad = http.get("/v1/queue", headers={"Authorization": "Bearer wrong"})
    assert (bad.status_code, bad.json()["code"]) == (401, "unauthorized")
    assert "Bearer" in bad.headers["www-authenticate"]
    name = http.get("/v1/queue", headers={"Kernelgym-Client": "not a name"})
    assert name.status_code == 400


def test_observation(http: httpx.Client) -> None:
    assert http.get("/healthz").json()["status"] == "ok"
    assert http.get("/readyz").json() == {"ready": True, "broker": "ok", "draining": False}
    text = http.get("/metrics").text
    for name in ("tasks{", "waiting{", "http_seconds_bucket", "queue_wait_seconds", "workers{"):
        assert f"kernelgym_{name}" in text
    described = http.get("/openapi.json").json()
    assert {"/v1/evaluations", "/v1/batches/{batch_id}/results", "/evaluate"} <= set(
        described["paths"]
    )


@pytest.mark.usefixtures("worker")
def test_logs_hold_no_source_and_no_token(http: httpx.Client, server: ServerProcess) -> None:
    secret = uuid.uuid4().hex
    sent = {"submission": json.loads(submission(source=f"ok {secret}").model_dump_json())}
    accepted = http.post("/v1/evaluations", json=sent).json()
    follow(http, accepted["batch"], 1)
    http.get("/v1/queue", headers={"Authorization": f"Bearer {secret}"})
    log = server.log.read_text()
    assert secret not in log
    assert server.token("worker") not in log
    records = [json.loads(line) for line in log.splitlines()]
    routes = {record.get("route") for record in records}
    assert "/v1/batches/{batch_id}/results" in routes, "routes, not paths with ids"


def test_many_waiters_are_released_by_one_event(http: httpx.Client, worker: str) -> None:
    accepted = http.post("/v1/evaluations", json=body("sleep 1")).json()
    seen: list[int] = []

    def wait() -> None:
        answer = http.get(f"/v1/batches/{accepted['batch']}/results", params={"wait": 30})
        seen.append(len(lines(answer)))

    threads = [threading.Thread(target=wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert seen == [1] * 20
    assert worker
