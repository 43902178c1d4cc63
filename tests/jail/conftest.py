"""Fixtures of the attack suite: runners by world, a stage by case, and what there is to attack."""

import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from stages import Case, Runner, Stage


@pytest.fixture(scope="session")
def runners():
    made: dict[str, Runner] = {}
    with contextlib.ExitStack() as stack:

        def get(world: str) -> Runner:
            if world not in made:
                made[world] = Runner(world)
                stack.callback(made[world].close)
            return made[world]

        yield get


@pytest.fixture(scope="session")
def hidden_directory():
    """A directory of the host with tasks in it, readable by everybody, outside /tmp."""
    directory = tempfile.mkdtemp(prefix="kernelgym-tasks-", dir="/opt")
    os.chmod(directory, 0o755)
    Path(directory, "reference.py").write_text("SECRET = 1\n")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def stage(request, runners, hidden_directory) -> Stage:
    if os.geteuid() != 0:
        pytest.skip("the worlds are made by root")
    case: Case = request.param
    return Stage(case, runners(case.world), hidden_directory)


@pytest.fixture(scope="session")
def listeners():
    """Listeners of the host: loopback, and unix by path and by abstract name."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir="/opt"))
        os.chmod(directory, 0o755)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        addresses = [f"{directory}/socket", f"@kernelgym-test-{os.getpid()}"]
        for address in addresses:
            for suffix, kind in (("", socket.SOCK_STREAM), ("-datagram", socket.SOCK_DGRAM)):
                listener = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
                name = address + suffix
                listener.bind("\0" + name[1:] if name[0] == "@" else name)
                if name[0] != "@":
                    os.chmod(name, 0o777)
                if kind == socket.SOCK_STREAM:
                    listener.listen(64)
        yield {
            "tcp_port": tcp.getsockname()[1],
            "unix_addresses": addresses,
            "directory": directory,
        }
