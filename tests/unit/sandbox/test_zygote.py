"""The zygote: what its children inherit; what happens when it dies, hangs or is asked nonsense."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelgym.errors import SandboxError, TransportError
from kernelgym.sandbox import zygote as server
from kernelgym.sandbox.jail import end
from kernelgym.sandbox.jail_spec import JailSpec
from kernelgym.sandbox.zygote_client import ZygoteClient

HERE = Path(__file__).parent
SPEC = JailSpec(level="none", memory_bytes=1 << 30)
ROLES = {name: f"zygote_roles:{name}" for name in ("tell", "parallel", "imports")}
ROLES["broken"] = "no_such_module:main"
PATIENCE_S = 60


@pytest.fixture(scope="module")
def client():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        patch.setenv("API_TOKEN", "do-not-tell")
        client = ZygoteClient(roles=ROLES)
        yield client
        client.close()


def ask(client: ZygoteClient, role: str, flavour: str = "native", spec=SPEC, env=None):
    """What a role says over its channel."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with ours:
        with theirs:
            launched = client.fork(flavour, role, spec, [theirs.fileno()], env or {})
        try:
            data = b"".join(iter(lambda: ours.recv(1 << 16), b""))
        finally:
            ended = end(launched)
        assert ended.survivors == 0
        return json.loads(data)


def root_pid(client: ZygoteClient) -> int:
    client.start()
    return client._running.process.pid


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(condition) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.mark.parametrize("flavour", ["native", "interpret"])
def test_a_child_has_torch_and_triton_one_thread_and_no_secret(client, flavour):
    told = ask(client, "tell", flavour, env={"GIVEN": "yes"})
    assert (told["torch"], told["triton"], told["dynamo"], told["threads"]) == (
        True,
        True,
        False,
        1,
    )
    assert told["environ"]["GIVEN"] == "yes"
    assert "API_TOKEN" not in told["environ"]
    assert "do-not-tell" not in told["block"]


def test_every_module_that_a_child_may_need_is_loaded(client):
    modules = set(ask(client, "tell", "interpret")["modules"])
    wanted = {"sandbox.candidate", "sandbox.compiler", "trace.launches", "trace.libdevice"}
    wanted |= {"backends.triton", "backends.torch", "trace.gate_hook"}
    assert {f"kernelgym.{name}" for name in wanted} <= modules


@pytest.mark.parametrize("flavour", ["native", "interpret"])
def test_a_child_can_use_several_threads(client, flavour):
    assert ask(client, "parallel", flavour) == 2048.0**3


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for the jail's namespaces")
def test_all_roles_are_there_when_the_checkout_is_hidden(client):
    package = Path(server.__file__).parents[1]
    spec = JailSpec(level="L1", memory_bytes=1 << 30, hidden=(str(package),))
    told = ask(client, "imports", "native", spec)
    assert told["visible"] == []
    assert len(told["names"]) == 3


def test_children_are_reaped(client):
    for _ in range(3):
        ask(client, "tell")
    flavours = children(root_pid(client))
    wait_for(lambda: not any(children(flavour) for flavour in flavours))


def test_unknown_roles_and_wrong_flavours_are_refused_and_do_no_harm(client):
    with pytest.raises(SandboxError, match="does not have it"):
        ask(client, "no_such_role")
    with pytest.raises(SandboxError, match="does not have it"):
        ask(client, "judge", "interpret")
    assert ask(client, "tell")["torch"]


def test_a_role_that_cannot_be_imported_says_so(client):
    with pytest.raises(SandboxError, match="no_such_module"):
        ask(client, "broken")


def test_several_threads_may_ask_at_once(client):
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(ask, client, "tell", flavour)
            for flavour in ("native", "interpret")
            for _ in range(8)
        ]
        assert all(job.result()["torch"] for job in jobs)


def test_a_killed_zygote_is_replaced(client):
    old = root_pid(client)
    gone = os.pidfd_open(old)
    os.kill(old, signal.SIGKILL)
    assert select.select([gone], [], [], PATIENCE_S)[0]  # a busy machine takes its time
    os.close(gone)
    assert ask(client, "tell")["torch"]
    assert root_pid(client) != old


def test_a_process_that_is_not_told_to_go_never_speaks(client):
    ours, theirs = socket.socketpair()
    go_read, go_write = os.pipe()
    ours.settimeout(PATIENCE_S)
    request = {"role": "tell", "spec": dataclasses.asdict(SPEC), "env": {}}
    with ours:
        _, fds = client._current().request(
            "native", request, [theirs.fileno(), go_read], time.monotonic() + PATIENCE_S
        )
        theirs.close()
        os.close(go_read)
        os.close(go_write)  # its host never got the answer
        assert ours.recv(1) == b""
    for fd in fds:
        os.close(fd)


def test_a_killed_flavour_is_replaced(client):
    old = root_pid(client)
    for flavour in children(old):
        os.kill(flavour, signal.SIGKILL)
    assert ask(client, "tell")["torch"]
    assert client.alive()


def test_a_zygote_that_does_not_answer_is_replaced(client, monkeypatch):
    assert ask(client, "tell")["torch"]
    old = root_pid(client)
    for flavour in children(old):
        os.kill(flavour, signal.SIGSTOP)
    monkeypatch.setattr(client, "_fork_timeout_s", 0.2)
    with pytest.raises(TransportError):  # twice: a new zygote does not wake up that fast
        ask(client, "tell")
    assert not Path(f"/proc/{old}").exists()


def test_jailed_processes_end_with_their_zygote(client):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        launched = client.fork(
            "interpret", "candidate", SPEC, [theirs.fileno(), theirs.fileno()], {}
        )
        os.kill(root_pid(client), signal.SIGKILL)
        wait_for(lambda: not _runs(launched.pid))
        end(launched)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_zygote_ends_with_its_host():
    script = (
        "import time\n"
        "from kernelgym.sandbox.zygote_client import ZygoteClient\n"
        "client = ZygoteClient(); client.start()\n"
        "print(client._running.process.pid, flush=True); time.sleep(3600)\n"
    )
    host = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    with host.stdout:
        root = int(host.stdout.readline())
        below = children(root)
        assert len(below) == 2
        host.kill()
        host.wait()
        wait_for(lambda: not any(_runs(pid) for pid in (root, *below)))


def test_a_closed_client_starts_nothing():
    client = ZygoteClient()
    client.close()
    with pytest.raises(TransportError, match="closed"):
        client.start()
    assert not client.alive()


def test_close_leaves_no_process_and_no_directory():
    client = ZygoteClient()
    root = root_pid(client)
    directory, below = Path(client._running.directory), children(root)
    client.close()
    wait_for(lambda: not any(_runs(pid) for pid in (root, *below)))
    assert not directory.exists()


def test_the_client_imports_no_torch():
    script = "import sys, kernelgym.sandbox.zygote_client as c; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_second_thread_forbids_forking():
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    try:
        with pytest.raises(SandboxError, match="threads"):
            server.check_fork_safe()
    finally:
        leave.set()
        thread.join()


def test_an_open_gpu_forbids_forking(monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda path: ["7"])
    monkeypatch.setattr(os, "readlink", lambda path: "/dev/nvidia0")
    with pytest.raises(SandboxError, match="nvidia0"):
        server.check_fork_safe()
