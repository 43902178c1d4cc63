"""Stages: a world and a level in it, with a runner that launches jails on request."""

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
SECRET = "canary-of-the-environment"
INTERPRETER_IN_TMP = {
    Path(prefix).relative_to("/tmp").parts[0]
    for prefix in (sys.prefix, sys.base_prefix)
    if Path(prefix).is_relative_to("/tmp")
}
"""What an otherwise empty private /tmp holds when Python itself lies in /tmp."""
MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    world: str
    level: str

    @property
    def name(self) -> str:
        return f"{self.level}-{self.world}"


L1_ROOT, L1_USER = Case("root", "L1"), Case("user", "L1")
L0_DOCKER, L0_USER = Case("docker", "L0"), Case("user", "L0")
CONTROL = Case("root", "none")
NAMESPACED = [L1_ROOT, L1_USER]
JAILED = [*NAMESPACED, L0_DOCKER, L0_USER]
OWN_UID = [L1_ROOT, L0_DOCKER]
"""Cases in which the guest has a user of its own."""


class Runner:
    """A process in a world that launches jails."""

    def __init__(self, world: str) -> None:
        environment = {**os.environ, "KERNELGYM_TEST_SECRET": SECRET}
        self._process = subprocess.Popen(
            [sys.executable, HERE / "world.py", world, sys.executable, HERE / "runner.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: dict, limit_s: float = 90.0) -> dict:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], limit_s)[0]:
            raise TimeoutError(f"no answer to {request}")
        line = self._process.stdout.readline()
        assert line, "the runner has died"
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


class Stage:
    """One case: run guests at its level in its world."""

    def __init__(self, case: Case, runner: Runner, hidden: str) -> None:
        self.case, self.runner, self.hidden = case, runner, hidden

    def spec(self, **changes) -> dict:
        spec = {
            "level": self.case.level,
            "memory_bytes": 512 * MIB,
            "tmp_bytes": 64 * MIB,
            "hidden": [self.hidden],
        }
        return {**spec, **changes}

    def run(self, call: str, *args, limit_s: float = 20.0, grace_s: float = 1.0, **options) -> dict:
        """Run ``guests.call``, or an attack as ``module:function`` with ``target``."""
        name = call if ":" in call else f"guests:{call}"
        spec = self.spec(**options.pop("spec", {}))
        request = {"spec": spec, "call": name, "args": args, "limit_s": limit_s, "grace_s": grace_s}
        return self.runner.ask({**request, **options})


def stages(*cases: Case):
    """Parametrise a test over cases."""
    flat = [case for item in cases for case in (item if isinstance(item, list) else [item])]
    return pytest.mark.parametrize("stage", flat, indirect=True, ids=lambda case: case.name)
