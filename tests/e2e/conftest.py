"""Hosts for end-to-end tests: one a world and level, each in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelgym.schema import EvalResult, Submission

_HERE = Path(__file__).parent
_WORLD = _HERE.parent / "jail" / "world.py"


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

    def evaluate(self, submission: Submission) -> EvalResult:
        assert self._process.stdin is not None
        self._process.stdin.write(submission.model_dump_json() + "\n")
        self._process.stdin.flush()
        return EvalResult.model_validate_json(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the host ended with {self._process.wait()}"
        return line.strip()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._line() == "closed"
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
