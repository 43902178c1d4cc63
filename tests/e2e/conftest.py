"""Hosts for end-to-end tests: one a world and level, each in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from kernelgym.schema import EvalResult, Submission

_HERE = Path(__file__).parent
_WORLD = _HERE.parent / "jail" / "world.py"
_LIMIT_S = 240.0


class RemoteHost:
    """An `EvaluationHost` in another process, perhaps in another world."""

    def __init__(self, world: str, level: str) -> None:
        self.level = level.partition(":")[0]
        command = [sys.executable, str(_HERE / "serve_host.py"), level]
        if world != "here":
            command = [sys.executable, str(_WORLD), world, *command]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("COV_", "PYTEST"))}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            cwd="/",
        )  # fmt: skip
        assert self._line() == "ready"
        self._asked = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[EvalResult]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def evaluate(self, submission: Submission) -> EvalResult:
        """Ask and wait; from several threads at once, if need be."""
        answer: Future[EvalResult] = Future()
        with self._lock:
            number = next(self._asked)
            self._waiting[number] = answer
            request = {"id": number, "submission": submission.model_dump(mode="json")}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return answer.result(timeout=_LIMIT_S)

    def _read(self) -> None:
        while (line := self._line()) != "closed":
            answer = json.loads(line) if line else {}
            if not answer:
                break
            result = EvalResult.model_validate(answer["result"])
            self._waiting.pop(answer["id"]).set_result(result)
        for waiting in self._waiting.values():
            waiting.set_exception(RuntimeError("the host ended"))

    def _line(self) -> str:
        """The next line; empty when the host is gone."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join(timeout=60)
        assert not self._reader.is_alive()
        assert self._process.stdout is not None
        self._process.stdout.close()
        assert self._process.wait(timeout=30) == 0


@pytest.fixture(scope="session")
def hosts() -> Iterator[Callable[[str, str], RemoteHost]]:
    made: dict[tuple[str, str], RemoteHost] = {}
    with contextlib.ExitStack() as stack:

        def get(world: str, level: str) -> RemoteHost:
            if world != "here" and os.geteuid() != 0:
                pytest.skip("other worlds are made by root")
            if (world, level) not in made:
                made[world, level] = RemoteHost(world, level)
                stack.callback(made[world, level].close)
            return made[world, level]

        yield get


@pytest.fixture(scope="session")
def host(hosts: Callable[[str, str], RemoteHost]) -> RemoteHost:
    """The usual one."""
    return hosts("here", "L1")
