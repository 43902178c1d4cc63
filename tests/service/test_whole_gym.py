"""A whole gym with a real worker: how far a task is, and what its candidate can reach.

The jail's own attacks are in tests/jail. Here the question is only whether a candidate that came in
through the service can turn against the service: each door is first shown to be open outside.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from whole_gym import whole_gym

from kernelgym.api import FINAL_STATES
from kernelgym.cli.queue import queue
from kernelgym.client import Gym
from kernelgym.schema import Submission
from kernelgym.tasks import registry

CANDIDATES = Path(__file__).parents[2] / "examples" / "candidates"
SYSTEM_PLACE = Path("/var/lib")
"""Where service managers keep state, and where a jail does not cover everything anyway."""

SLOW = """
import time

time.sleep(2.5)
_forward = ModelNew.forward


def _slowly(self, x):
    time.sleep(0.4)
    return _forward(self, x)


ModelNew.forward = _slowly
"""

PROBE = """
import json
import os
import socket


def reached(doors):
    found = []
    for kind, target in doors:
        try:
            if kind == "tcp":
                socket.create_connection(("127.0.0.1", target), timeout=5).close()
            elif kind == "unix":
                with socket.socket(socket.AF_UNIX) as it:
                    it.settimeout(5)
                    it.connect(target)
            elif kind == "own":
                with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as it:
                    server.bind(target)
                    server.listen()
                    it.connect(target)
            elif kind == "directory":
                os.listdir(target)[0]
            else:
                with open(target, "rb") as file:
                    file.read(1)
        except (OSError, IndexError):
            continue
        found.append([kind, target])
    return found
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory that jails would show, where this user may make one."""
    try:
        directory = Path(tempfile.mkdtemp(prefix="kernelgym-test-", dir=SYSTEM_PLACE))
    except OSError:
        yield tmp_path_factory.mktemp("whole-gym")
        return
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def state(place: Path) -> Iterator[Path]:
    """State directory of a running gym."""
    with whole_gym(place / "state", "--slots", "2"):
        yield place / "state"


@pytest.fixture
def address(state: Path) -> str:
    return (state / "address").read_text()


def softmax(more: str) -> Submission:
    source = (CANDIDATES / "softmax.py").read_text() + more + f"\n# {uuid.uuid4().hex}\n"
    return Submission(task=registry.builtin_task("builtin/softmax"), source=source, trials=2)


@pytest.mark.timeout(600)
def test_queue_and_page_say_that_a_task_is_prepared_then_runs(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    states, pages, lines = [], "", ""
    with Gym(address) as gym, httpx.Client(base_url=address, trust_env=False, timeout=30) as http:
        [evaluation] = gym.submit(softmax(SLOW)).ids
        while not states or states[-1] not in FINAL_STATES:
            states.append(gym.get(evaluation).state)
            pages += http.get("/ui").text
            assert queue(server=address) == 0
            lines += capsys.readouterr().out
            time.sleep(0.05)
        assert gym.get(evaluation).result is not None
    order = list(dict.fromkeys(states))
    assert [one for one in order if one not in ("queued", "leased")] == [
        "preparing",
        "running",
        "done",
    ]
    for one in ("preparing", "running"):
        assert f"<b>1</b> {one}" in pages
        assert f"1 {one}" in lines


@pytest.mark.timeout(600)
def test_a_candidate_reaches_neither_server_nor_broker_nor_their_files(
    place: Path, state: Path, address: str
) -> None:
    (place / "neighbour").write_text("whoever is on this machine may read this")
    [broker] = [str(path) for path in (state / "broker").iterdir() if path.is_socket()]
    name = f"\0kernelgym-test-{uuid.uuid4().hex}"
    closed = [
        ["tcp", int(address.rsplit(":", 1)[1])],
        ["unix", broker],
        ["unix", name],
        ["directory", str(state)],
        ["directory", str(state / "broker")],
        *(["file", str(state / "broker" / one)] for one in ("password", "broker.conf")),
        *(["file", str(state / f"{role}.token")] for role in ("worker", "admin")),
        ["file", str(state / "logs" / "server.log")],
        ["file", str(state / "address")],
    ]
    open_here = [["file", "/etc/passwd"], ["own", f"{name}-own"]]
    if place.parent == SYSTEM_PLACE:
        open_here.append(["file", str(place / "neighbour")])
    doors = [*closed, *open_here]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        assert outside(doors) == doors, "the probe itself must be able to see every door open"
        found = inside(address, doors)
    assert found == open_here


def outside(doors: list[list[object]]) -> object:
    """What the same code reaches on this machine without a jail."""
    code = f"{PROBE}\nprint(json.dumps(reached({doors!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def inside(address: str, doors: list[list[object]]) -> list[list[object]]:
    """What it reaches as a candidate; it says so in the error that it ends with."""
    numbered = f"\nopen_ones = [n for n, one in enumerate({doors!r}) if reached([one])]"
    numbered += "\nraise RuntimeError(open_ones)"
    with Gym(address) as gym:
        [one] = gym.wait(gym.submit(softmax(PROBE + numbered)))
    assert one is not None
    assert one.result is not None
    assert one.result.failure is not None, one.result
    message = one.result.failure.message
    numbers = json.loads(message[message.index("[") : message.index("]") + 1])
    return [doors[n] for n in numbers]
