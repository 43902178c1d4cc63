"""The zygote: a process that has torch and Triton imported and forks evaluation processes in 3 ms.

    host --control socket--> root (imports torch; forks flavours)
                              |- native     imports triton, warms its compiler up
                              `- interpret  sets TRITON_INTERPRET=1, then imports triton
    host --a socket each--> flavour: forks a role (judge, candidate, compiler) in a jail

Two flavours, because Triton's own library functions decide at import whether they are interpreted.
A flavour stays one-threaded, runs no tensor operation (a forked OpenMP hangs) and never touches a
GPU; both are checked before each fork. It never runs a candidate's code itself. There are no signal
handlers that a child could inherit: the root ends when its host's socket closes or its parent
changes, flavours end with the root, jailed processes with their flavour (`PR_SET_PDEATHSIG`).

Run as ``python -m kernelgym.sandbox.zygote FD [role=module:function ...]`` by
`kernelgym.sandbox.zygote_client`, never by hand. Not covered: telling what a candidate did (judge),
ending a process tree (`jail.end`, called by the host).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from kernelgym.errors import KernelGymError, SandboxError
from kernelgym.sandbox import zygote_wire as wire

_PR_SET_PDEATHSIG = 1
_PARENT_CHECK_MS = 1000
DEFAULT_ROLES = {
    "judge": "kernelgym.judge.process:main",
    "candidate": "kernelgym.sandbox.candidate:main",
    "compiler": "kernelgym.sandbox.compiler:main",
}
_NATIVE_ONLY = ("judge", "compiler")


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Ask the kernel to end this process when the one that forked it ends.

    ``parent`` is that process's id: if it is gone already, this process leaves at once.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def check_fork_safe() -> None:
    """Raise `SandboxError` if a fork from here could hang or would share a GPU context."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise SandboxError(f"the zygote has {threads} threads, it must have one")
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith("/dev/nvidia"):
            raise SandboxError(f"the zygote has {target} open")


class Flavour:
    """One forking process: answers FORK requests on its socket until that is closed."""

    def __init__(self, name: str, control: socket.socket, roles: dict[str, str]) -> None:
        self._name = name
        self._control = control
        self._paths = roles
        self._roles: dict[str, Callable[..., None] | str] = {}  # or why it cannot be had
        self._warm = False
        self._watched: set[int] = set()  # pidfds of what was launched and has not ended

    def run(self) -> None:
        """Import, answer who is already waiting, warm up, then serve."""
        from kernelgym.sandbox import warmup

        start = time.monotonic()
        warmup.preload(self._name)
        for role, path in self._paths.items():
            if self._name == "native" or role not in _NATIVE_ONLY:
                self._roles[role] = self._resolve(path)
        self._settle()
        wire.send(self._control, {"ready": self._name, "seconds": time.monotonic() - start})
        self._serve(until_idle=True)
        self._warm_up()
        self._serve()

    def _warm_up(self) -> None:
        from kernelgym.sandbox import huge_pages, warmup

        if not self._warm:
            warmup.warm_up(self._name)
            self._settle()
            huge_pages.collapse()  # now that all is there which children will share
            self._warm = True

    def _resolve(self, path: str) -> Callable[..., None] | str:
        from kernelgym.sandbox import warmup

        module, _, function = path.partition(":")
        try:
            warmup.import_package(module.rpartition(".")[0])
            resolved: Callable[..., None] = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, SyntaxError) as error:
            return f"{path} cannot be imported: {error}"
        return resolved

    def _settle(self) -> None:
        """Move what exists out of the collector's sight, so that children do not copy it."""
        gc.collect()
        gc.freeze()
        gc.disable()

    def _serve(self, *, until_idle: bool = False) -> None:
        while True:
            poller = select.poll()
            poller.register(self._control, select.POLLIN)
            for pidfd in self._watched:
                poller.register(pidfd, select.POLLIN)
            ready = dict(poller.poll(0 if until_idle else None))
            self._reap(self._watched.intersection(ready))
            if self._control.fileno() in ready:
                self._answer()
            elif until_idle:
                return

    def _reap(self, ended: set[int]) -> None:
        from kernelgym.sandbox import jail

        if ended:
            jail.reap()
        for pidfd in ended:
            self._watched.discard(pidfd)
            os.close(pidfd)

    def _answer(self) -> None:
        request, fds = wire.receive(self._control)
        try:
            answer, kept = self._fork(request, fds)
        except (KernelGymError, OSError, TypeError, KeyError) as error:
            wire.send(self._control, {"error": str(error), "type": type(error).__name__})
            return
        finally:
            for fd in fds:
                os.close(fd)
        wire.send(self._control, answer, kept)
        for fd in kept:
            os.close(fd)

    def _fork(
        self, request: dict[str, Any], fds: Sequence[int]
    ) -> tuple[dict[str, Any], tuple[int, int]]:
        from kernelgym.sandbox import jail

        if request["role"] != "judge":  # which never compiles
            self._warm_up()
        check_fork_safe()
        role = self._roles.get(request["role"], f"flavour {self._name} does not have it")
        if isinstance(role, str):
            raise SandboxError(role)
        environment: dict[str, str] = request["env"]
        spec = jail.JailSpec(**request["spec"])

        *role_fds, go_fd = fds

        def main() -> None:
            if os.read(go_fd, 1) != b"1":
                return  # nobody knows of this process: its host has asked another zygote
            os.close(go_fd)
            gc.enable()
            os.environ.update(environment)  # the jail has made it empty but for a few paths
            role(*role_fds)

        launched = jail.launch(spec, main, list(fds))
        self._watched.add(os.dup(launched.pidfd))
        answer = {
            "pid": launched.pid,
            "level": launched.level,
            "missing": list(launched.missing),
            "cgroup": launched.cgroup,
            "ready_ms": launched.ready_ms,
        }
        return answer, (launched.pidfd, launched.status_fd)


class Root:
    """The first process: has torch, forks flavours when asked, ends with its host."""

    def __init__(self, control: socket.socket, roles: dict[str, str]) -> None:
        self._control = control
        self._roles = roles
        self._host = os.getppid()

    def run(self) -> None:
        """Import torch, say so, fork flavours until the host goes away."""
        start = time.monotonic()
        importlib.import_module("torch")
        gc.collect()
        gc.freeze()
        wire.send(self._control, {"ready": "root", "seconds": time.monotonic() - start})
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        while os.getppid() == self._host:
            ready = poller.poll(_PARENT_CHECK_MS)
            self._reap()
            if ready:
                self._answer()

    def _reap(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return

    def _answer(self) -> None:
        request, fds = wire.receive(self._control)
        check_fork_safe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(parent)
            self._control.close()
            Flavour(request["flavour"], socket.socket(fileno=fds[0]), self._roles).run()
        for fd in fds:
            os.close(fd)
        wire.send(self._control, {"pid": pid})


def main(arguments: Sequence[str]) -> None:
    """Run the root over the socket whose descriptor is the first argument."""
    roles = dict(DEFAULT_ROLES)
    for argument in arguments[1:]:
        role, _, path = argument.partition("=")
        roles[role] = path
    try:
        Root(socket.socket(fileno=int(arguments[0])), roles).run()
    except KernelGymError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
