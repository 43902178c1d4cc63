"""`kernelgym submit`, `watch`, `queue` and `workers` against a real gym with a stub worker."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from gym_under_test import ServerProcess

from kernelgym.cli.main import main

REFERENCE = "reference"


class Verbs:
    """Runs verbs in this process; their exit code and what they print."""

    def __init__(
        self, server: ServerProcess, directory: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._server, self._directory, self._capsys = server, directory, capsys
        self.reference = directory / "reference.py"
        self.reference.write_text(REFERENCE)

    def candidate(self, source: str) -> str:
        path = self._directory / f"{uuid.uuid4().hex}.py"
        path.write_text(f"{source} {uuid.uuid4().hex}")
        return str(path)

    def __call__(self, *words: str) -> tuple[int, str]:
        code = main([*words, "--server", self._server.url])
        return code, self._capsys.readouterr().out

    def submit(self, *words: str) -> tuple[int, str]:
        return self("submit", *words, "--reference", str(self.reference))


@pytest.fixture
def verbs(server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verbs:
    return Verbs(server, tmp_path, capsys)


@pytest.mark.usefixtures("worker")
def test_submit_then_watch(verbs: Verbs) -> None:
    code, out = verbs.submit(verbs.candidate("ok"), verbs.candidate("ok"), "--no-wait")
    ids = out.split()
    assert (code, len(ids)) == (0, 2)
    code, out = verbs("watch", *ids)
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()] == [[i, "done", "correct"] for i in ids]


@pytest.mark.usefixtures("worker")
def test_what_the_gym_fails_is_exit_code_3(verbs: Verbs) -> None:
    code, out = verbs.submit(verbs.candidate("infra"), "--json")
    assert code == 3
    assert json.loads(out)["state"] == "dead"


@pytest.mark.usefixtures("worker")
def test_class_that_nobody_serves_is_said(verbs: Verbs, caplog: pytest.LogCaptureFixture) -> None:
    code, out = verbs.submit(verbs.candidate("ok"), "--device", "gpu", "--deadline", "0.5")
    assert code == 3
    assert "dead  deadline: no worker of class gpu has been connected" in out
    assert "no worker of class gpu is connected" in caplog.text


def test_cancel_and_queue(verbs: Verbs) -> None:
    _, out = verbs.submit(verbs.candidate("ok"), "--no-wait", "--device", "unserved")
    [one] = out.split()
    code, out = verbs("queue")
    assert code == 0
    [line] = [line for line in out.splitlines() if "unserved" in line]
    assert line.rstrip().endswith("none"), "no worker of that class"
    code, out = verbs("watch", one, "--cancel")
    assert (code, out.split()[:2]) == (0, [one, "cancelled"])
    code, out = verbs("queue", "--json")
    assert json.loads(out)["waiting"].get("unserved", {}) == {}


def test_workers(verbs: Verbs, worker: str) -> None:
    assert worker in verbs("workers")[1]
    [listed] = [one for one in json.loads(verbs("workers", "--json")[1]) if one["name"] == worker]
    assert listed["info"]["classes"] == ["cpu", "any"]


def test_usage(verbs: Verbs) -> None:
    assert verbs("watch", "0" * 32)[0] == 2
    assert verbs.submit(verbs.candidate("ok"), verbs.candidate("ok"), "--key", "k")[0] == 2
