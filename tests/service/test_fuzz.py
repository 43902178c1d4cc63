"""Hostile requests to every operation of our own OpenAPI document: never a 500, never an echo.

Bodies are mutations of valid ones and plain junk; path and query values are hostile strings and
numbers; roles are tried in turn. Answers must be problems with a code, or what the document allows.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gym_under_test import ServerProcess, submission

REQUESTS_EACH = 12
SECRET = "do-not-echo-7f3a"
JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63,
    1e308,
    "",
    SECRET,
    "\x00\r\nSet-Cookie: a=b",
    "../../etc/passwd",
    "{{7*7}}",
    "'; DROP TABLE tasks; --",
    "\ud800",
    "é" * 50,
    [],
    {},
    [[[[[]]]]],
    {"__proto__": SECRET},
    ["x"] * 500,
]


def valid_body(path: str) -> dict[str, Any]:
    """A body that the operation would take."""
    if path.startswith("/evaluate"):
        old = {"task_id": "t", "reference_code": "x" * 20, "kernel_code": "y" * 20}
        return {"batch_id": "b", "tasks": [old]} if path.endswith("batch") else old
    if path.endswith("/claim"):
        return {"request": "r", "classes": ["nowhere"], "limit": 1, "wait_s": 0}
    if path.endswith("/heartbeat"):
        held = [{"id": "a", "token": 1, "stage": "running"}]
        return {"info": {"host": "h", "devices": [{"name": "cpu"}]}, "held": held}
    if path.endswith("/complete"):
        return {"items": [{"id": "a", "token": 1, "kind": "release"}]}
    one = {"submission": json.loads(submission().model_dump_json()), "device": "nowhere"}
    return {"items": [one, one]}


def mutated(value: Any, random_: random.Random) -> Any:
    """One random place of a JSON value replaced, removed or added to."""
    if isinstance(value, dict) and value and random_.random() < 0.8:
        name = random_.choice(sorted(value))
        copy = dict(value)
        match random_.randrange(4):
            case 0:
                del copy[name]
            case 1:
                copy[random_.choice(["x", SECRET, ""])] = random_.choice(JUNK)
            case _:
                copy[name] = mutated(copy[name], random_)
        return copy
    if isinstance(value, list) and value and random_.random() < 0.7:
        return [mutated(value[0], random_), *value[1:]]
    return random_.choice(JUNK)


@pytest.fixture(scope="module")
def roles(server: ServerProcess) -> Iterator[list[httpx.Client]]:
    headers: list[dict[str, str]] = [{}, {"Authorization": "Bearer wrong"}]
    headers += [{"Authorization": f"Bearer {server.token(one)}"} for one in ("worker", "admin")]
    clients = [server.http(headers=one) for one in headers]
    yield clients
    for client in clients:
        client.close()


def operations(http: httpx.Client) -> list[tuple[str, str, dict[str, Any]]]:
    paths = http.get("/openapi.json").json()["paths"]
    return [(method, path, one) for path, ones in paths.items() for method, one in ones.items()]


def filled(path: str, random_: random.Random) -> str:
    """The path with hostile values, encoded as a client would."""
    while "{" in path:
        start, end = path.index("{"), path.index("}") + 1
        value = random_.choice([uuid.uuid4().hex, "%00", "%2e%2e%2f", "a%20b", "x" * 300, "%ff"])
        path = path[:start] + value + path[end:]
    return path


def query(operation: dict[str, Any], random_: random.Random) -> dict[str, str]:
    names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
    values = ["-1", "nan", "1e400", "99999999999999999999", SECRET, "", "0", "\x00"]
    return {name: random_.choice(values) for name in names if random_.random() < 0.6}


def check(answer: httpx.Response, what: str) -> None:
    assert answer.status_code < 500 or answer.json()["code"] in ("broker_unavailable",), what
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json", what
        problem = answer.json()
        assert problem["code"], what
        assert "Traceback" not in answer.text, what
        assert 'File "' not in answer.text, what


def test_no_request_makes_the_server_fail_or_talk(roles: list[httpx.Client]) -> None:
    random_ = random.Random(11)
    tried = 0
    for method, path, operation in operations(roles[0]):
        if path in ("/evaluate", "/evaluate/batch"):
            continue  # a valid one waits for a verdict; test_compat.py has the invalid ones
        for n in range(REQUESTS_EACH):
            client = roles[n % len(roles)]
            options: dict[str, Any] = {"params": query(operation, random_)}
            if "requestBody" in operation:
                body = mutated(valid_body(path), random_)
                text = json.dumps(body)
                options["content"] = text if n % 6 else text[: len(text) // 2]
                options["headers"] = {"Content-Type": "application/json"}
            target = filled(path, random_)
            answer = client.request(method.upper(), target, **options)
            what = f"{method} {target} {options} -> {answer.status_code} {answer.text[:300]}"
            check(answer, what)
            if "wrong" in client.headers.get("authorization", "") and "/v1/" in path:
                assert answer.status_code in (307, 401, 404), what
            tried += 1
    assert tried > 200
    assert roles[0].get("/readyz").json()["ready"] is True


def test_values_are_not_echoed(roles: list[httpx.Client]) -> None:
    body = valid_body("/v1/evaluations")
    body["items"][0]["submission"]["protocol"] = SECRET
    body["items"][1]["priority"] = SECRET
    answer = roles[0].post("/v1/evaluations", json=body)
    assert answer.status_code == 400
    assert SECRET not in answer.text
