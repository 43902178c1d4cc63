"""Requests made from our own OpenAPI document: what it allows, and what it forbids.

Every answer must be one that the document has: no 500, a documented status and type, a body of the
documented shape, a refusal of what the document forbids; and no word of a trace, a secret or a
path of the machine. Roles are drawn with the requests. test_fuzz.py has junk that no schema knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from gym_under_test import ServerProcess, start_broker, start_stub_worker, stop
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

EXAMPLES = 5
"""For each operation and mode."""
CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.negative_data_rejection,
]
MODES = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]


class Gym:
    """A server with a worker that judges everything at once, and who may ask it."""

    def __init__(self, server: ServerProcess, password: str) -> None:
        self.url = server.url
        tokens = [server.token("worker"), server.token("admin")]
        self.headers: list[dict[str, str]] = [
            {},
            {"Authorization": "Bearer wrong"},
            *({"Authorization": f"Bearer {token}"} for token in tokens),
        ]
        self.secrets = [*tokens, password, str(server.state)]


@pytest.fixture(scope="module")
def gym(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gym]:
    directory = tmp_path_factory.mktemp("schema")
    broker = start_broker(directory / "broker")
    server = ServerProcess(directory / "server", broker.url)
    server.start()
    worker = start_stub_worker(server, "stub", slots=4)
    yield Gym(server, (directory / "broker" / "password").read_text())
    stop(worker)
    server.stop()
    broker.stop()


def without_security(gym: Gym) -> dict[str, Any]:
    """The document; who asks is this file's business, not the generator's."""
    document: dict[str, Any] = httpx.get(f"{gym.url}/openapi.json", trust_env=False).json()
    for operations in document["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
    return document


def takes_something(operation: dict[str, Any]) -> bool:
    """Whether there is anything to get wrong."""
    return bool(operation.get("parameters") or operation.get("requestBody"))


def hurried(case: schemathesis.Case) -> schemathesis.Case:
    """Without long polls: they are allowed to take a minute."""
    if isinstance(case.query, dict) and "wait" in case.query:
        case.query["wait"] = _at_once(case.query["wait"])
    if isinstance(case.body, dict) and "wait_s" in case.body:
        case.body["wait_s"] = _at_once(case.body["wait_s"])
    return case


def _at_once(value: Any) -> Any:
    return 0 if isinstance(value, int | float) and 0 < value <= 60 else value


def ask(gym: Gym, session: requests.Session, case: schemathesis.Case, headers: dict[str, str]):
    answer = hurried(case).call(base_url=gym.url, session=session, headers=headers, timeout=30)
    case.validate_response(answer, checks=CHECKS)
    text = answer.text
    for secret in (*gym.secrets, "Traceback", 'File "'):
        assert secret not in text, f"{case.as_curl_command()}\n{text[:500]}"


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_every_answer_is_one_of_the_document(gym: Gym, mode: schemathesis.GenerationMode) -> None:
    schema = schemathesis.openapi.from_dict(without_security(gym))
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 15
    if mode is schemathesis.GenerationMode.NEGATIVE:
        operations = [one for one in operations if takes_something(one.definition.raw)]
        assert len(operations) > 10
    with requests.Session() as session:
        session.trust_env = False
        for operation in operations:
            strategy = operation.as_strategy(generation_mode=mode)

            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=strategy, headers=st.sampled_from(gym.headers))
            def one(case: schemathesis.Case, headers: dict[str, str]) -> None:
                ask(gym, session, case, headers)

            one()
    assert session.get(f"{gym.url}/readyz").json()["ready"] is True
