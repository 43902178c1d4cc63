"""Servers, brokers and stub workers as processes of their own, for the service's tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from kernelgym.broker.embedded import EmbeddedBroker, wheel_server
from kernelgym.schema import Submission, Task
from kernelgym.server.auth import local_token
from kernelgym.settings import ServerSettings

HERE = Path(__file__).parent
START_S = 60.0


def submission(name: str = "task", source: str = "source", **fields: Any) -> Submission:
    """A submission that only a stub can judge; the source says what it does."""
    return Submission(
        task=Task(name=name, reference=f"reference of {name}"), source=source, **fields
    )


class ServerProcess:
    """A server on a broker, in a process of its own."""

    def __init__(self, state: Path, broker_url: str, **settings: Any) -> None:
        self.state = state
        self.ready = state / "ready"
        self.log = state / "server.log"
        options = {"port": 0, "lease_s": 2.0, **settings}
        self.settings = ServerSettings(state_dir=state, broker=broker_url, **options)
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        self.ready.unlink(missing_ok=True)
        order = {
            "settings": json.loads(self.settings.model_dump_json()),
            "log_file": str(self.log),
            "ready": str(self.ready),
        }
        if self.url:
            order["settings"]["port"] = int(self.url.rsplit(":", 1)[1])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kernelgym.server.main"], stdin=subprocess.PIPE
        )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode())
        self.process.stdin.close()
        wait_until(self.ready.exists, "the server's ready file", process=self.process)
        self.url = self.ready.read_text()
        wait_until(self.answers, "an answer of the server", process=self.process)

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def token(self, role: Any) -> str:
        return local_token(self.state, role)

    def http(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False, **options)


def start_broker(path: Path) -> EmbeddedBroker:
    return EmbeddedBroker.start(path, throw_away=True, binary=wheel_server())


def start_stub_worker(server: ServerProcess, name: str, **options: Any) -> subprocess.Popen[bytes]:
    """A real agent with an evaluator that only follows orders in the source."""
    order = {"server": server.url, "token": server.token("worker"), "name": name, **options}
    return start_program("stub_worker.py", order)


def start_program(
    file: str, order: dict[str, Any], prefix: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """A program of this directory that reads its order; ``prefix`` comes before its command."""
    process = subprocess.Popen(
        [*prefix, sys.executable, str(HERE / file)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(order).encode())
    process.stdin.close()
    return process


def stop(process: subprocess.Popen[bytes], timeout_s: float = 30.0) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(
    condition: Any, what: str, *, process: subprocess.Popen[bytes] | None = None
) -> None:
    end = time.monotonic() + START_S
    while not condition():
        if process is not None and process.poll() is not None:
            raise AssertionError(f"{what}: the process ended with {process.returncode}")
        if time.monotonic() > end:
            raise AssertionError(f"{what}: nothing within {START_S} s")
        time.sleep(0.02)
