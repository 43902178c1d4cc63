"""A server with a tokens file: who may do what, and which files and addresses it refuses."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from gym_under_test import ServerProcess, submission
from whole_gym import kernelgym

from kernelgym.broker.embedded import EmbeddedBroker
from kernelgym.errors import UsageError
from kernelgym.server.auth import read_tokens

TOKENS = {
    ("client", "trainer-a"): "token-of-trainer-a",
    ("client", "trainer-b"): "token-of-trainer-b",
    ("worker", "cluster"): "token-of-the-workers",
    ("admin", "ops"): "token-of-the-operator",
}
OPEN = ("/", "/healthz", "/readyz", "/health")
"""Say that the process lives and nothing else."""


@pytest.fixture(scope="module")
def server(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("roles")
    tokens = directory / "tokens"
    lines = [f"{role} {name} {token}" for (role, name), token in TOKENS.items()]
    tokens.write_text("# role name token\n\n" + "\n".join(lines))
    tokens.chmod(0o600)
    process = ServerProcess(directory / "state", broker.url, tokens=tokens)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def ask(server: ServerProcess) -> Iterator[dict[str, httpx.Client]]:
    """A connection for everybody, by name; '' has no token."""
    headers = {"": {}} | {
        name: {"Authorization": f"Bearer {token}"} for (_, name), token in TOKENS.items()
    }
    clients = {name: server.http(headers=header) for name, header in headers.items()}
    yield clients
    for client in clients.values():
        client.close()


def submitted(client: httpx.Client) -> tuple[str, str]:
    """Ids of an evaluation that nobody will take, and of its batch."""
    one = json.loads(submission(source=uuid.uuid4().hex).model_dump_json())
    body = {"submission": one, "device": "nowhere"}
    answer = client.post("/v1/evaluations", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["ids"][0], answer.json()["batch"]


def test_nothing_is_open_to_who_has_no_token(ask: dict[str, httpx.Client]) -> None:
    paths = ask[""].get("/openapi.json").json()["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            filled = path.replace("{", "").replace("}", "")
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic Og=="}):
                answer = ask[""].request(method, filled, headers=headers)
                if path in OPEN:
                    assert answer.status_code == 200, path
                else:
                    assert operation["security"] == [{"token": []}], path
                    assert answer.status_code == 401, f"{method} {path}: {answer.text}"
    assert set(ask[""].get("/health").json()) == {"status", "timestamp"}
    assert "gpu_status" in ask["trainer-a"].get("/health").json()
    for path in ("/ui", f"/ui/evaluations/{uuid.uuid4().hex}"):
        assert ask[""].get(path).status_code == 401


def test_each_role_does_its_own_only(ask: dict[str, httpx.Client]) -> None:
    claim = {"request": "r", "classes": ["nowhere-else"]}
    beat = {"info": {"host": "h"}}
    give = {"items": [{"id": "a", "token": 1, "kind": "release"}]}
    for verb, body in (("claim", claim), ("heartbeat", beat), ("complete", give)):
        path = f"/v1/workers/role-test/{verb}"
        assert ask["trainer-a"].post(path, json=body).status_code == 403
        assert ask["cluster"].post(path, json=body).status_code == 200
    assert ask["trainer-a"].delete("/v1/workers/role-test").status_code == 403
    assert ask["cluster"].delete("/v1/workers/role-test").status_code == 200
    one = json.loads(submission().model_dump_json())
    assert ask["cluster"].post("/v1/evaluations", json={"submission": one}).status_code == 403
    assert ask["cluster"].get("/v1/queue").status_code == 403
    assert ask["ops"].get("/v1/queue").status_code == 200


def test_a_client_sees_and_cancels_its_own_only(ask: dict[str, httpx.Client]) -> None:
    one, batch = submitted(ask["trainer-a"])
    for path in (
        f"/v1/evaluations/{one}",
        f"/v1/batches/{batch}/results",
        f"/ui/evaluations/{one}",
    ):
        assert ask["trainer-a"].get(path).status_code == 200, path
        assert ask["trainer-b"].get(path).status_code == 404, path
        assert ask["ops"].get(path).status_code == 200, path
    for path in (f"/v1/evaluations/{one}", f"/v1/batches/{batch}"):
        assert ask["trainer-b"].delete(path).status_code == 404, path
    assert ask["trainer-a"].get(f"/v1/evaluations/{one}").json()["state"] == "queued"
    assert ask["ops"].delete(f"/v1/evaluations/{one}").json()["states"] == {one: "cancelled"}


def test_a_browser_logs_in_with_the_token_as_its_password(server: ServerProcess) -> None:
    with server.http(auth=("anybody", TOKENS["client", "trainer-b"])) as browser:
        assert browser.get("/ui").status_code == 200
        assert browser.get("/v1/queue").status_code == 401, "the API takes bearer tokens only"


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("client a token-long-enough", 0o644, "can be read by others"),
        ("client a short", 0o600, "16 characters"),
        ("boss a token-long-enough", 0o600, "expected ROLE NAME TOKEN"),
        ("client two words token-long-enough", 0o600, "expected ROLE NAME TOKEN"),
        ("client a token-long-enough\nadmin b token-long-enough", 0o600, "occurs twice"),
    ],
)
def test_bad_tokens_files(tmp_path: Path, text: str, mode: int, says: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(UsageError, match=says):
        read_tokens(path)


@pytest.mark.parametrize("verb", ["serve", "up"])
def test_no_public_address_without_tokens(verb: str, tmp_path: Path) -> None:
    command = kernelgym(
        verb, "--host", "0.0.0.0", "--port", "0", "--state", str(tmp_path / "state")
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done
    assert "--tokens" in done.stderr
