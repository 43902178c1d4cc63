"""The host's side of the zygote: start it, ask it for jailed processes, survive its death.

Imports no torch. Every wait has a deadline; a zygote that does not answer is killed and replaced,
and the request is made once more: a process starts its role only when told to by us, so that one
which an unlucky zygote forked before it died never speaks. Calls block (a few milliseconds); an
asyncio host makes them through ``asyncio.to_thread``.

Not covered: ending what was launched (`jail.end`), talking to it (the caller's descriptors).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from kernelgym.errors import SandboxError, TransportError
from kernelgym.sandbox import zygote_wire as wire
from kernelgym.sandbox.jail_spec import JailSpec, Launched
from kernelgym.sandbox.keeper import ZYGOTE_PREFIX

_KEPT_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV",
    "CUDA_HOME", "CUDA_PATH", "CC", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG",
)  # fmt: skip
"""What a zygote inherits. Its children can read its environment in ``/proc``: no secret may be in
it."""

_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


class _Running:
    """One root process and the sockets to it and its flavours."""

    def __init__(self, roles: Mapping[str, str], deadline: float, *, gpu: bool = False) -> None:
        self._gpu = gpu
        self.directory = tempfile.mkdtemp(prefix=f"{ZYGOTE_PREFIX}{os.getpid()}-")
        # A jail without a private /tmp works in here as another user: it may pass, not list.
        os.chmod(self.directory, 0o711)
        self._errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `kill`
        self.control, theirs = wire.pair()
        self.flavours: dict[str, socket.socket] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._waking: set[str] = set()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kernelgym.sandbox.zygote", str(theirs.fileno())]
                + [f"{role}={path}" for role, path in roles.items()],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=self._environment(),
                cwd=self.directory,
                start_new_session=True,
            )
        try:
            wire.receive(self.control, deadline)
            for flavour in ("native", "interpret"):
                self._start_flavour(flavour, deadline)
        except TransportError as error:
            last_words = self.last_words()
            self.kill()
            raise TransportError(
                f"the zygote did not start: {error}\n{last_words}".strip()
            ) from error

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        private = {"HOME": self.directory, "TMPDIR": self.directory, "USER": "kernelgym"}
        for_gpu = {"KERNELGYM_CUDA": "1"} if self._gpu else {}
        fixed = {"PYTHONDONTWRITEBYTECODE": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
        return kept | _ONE_THREAD | private | for_gpu | fixed

    def _start_flavour(self, name: str, deadline: float) -> None:
        ours, theirs = wire.pair()
        with theirs:
            wire.send(self.control, {"flavour": name}, [theirs.fileno()])
        wire.receive(self.control, deadline)
        self.flavours[name] = ours
        self._locks[name] = threading.Lock()
        self._waking.add(name)

    def request(
        self, flavour: str, message: dict[str, Any], fds: Sequence[int], deadline: float
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Send a request to a flavour and wait for its answer."""
        sock = self.flavours[flavour]
        with self._locks[flavour]:
            wire.send(sock, message, fds)
            if flavour in self._waking:
                wire.receive(sock, deadline)
                self._waking.discard(flavour)
            return wire.receive(sock, deadline)

    def last_words(self) -> str:
        """End of what root and flavours wrote to their standard error."""
        if self._errors.closed:
            return ""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 2000))
        return self._errors.read().decode(errors="replace")

    def kill(self) -> None:
        """End the root; its flavours and everything jailed end with it."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.control.close()
        for name, sock in self.flavours.items():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits here
            with self._locks[name]:
                sock.close()
        self._errors.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class ZygoteClient:
    """Forks jailed processes through a zygote that is started on first use and replaced when
    dead."""

    def __init__(
        self,
        *,
        roles: Mapping[str, str] | None = None,
        gpu: bool = False,
        start_timeout_s: float = 60.0,
        fork_timeout_s: float = 30.0,
    ) -> None:
        """``roles`` adds to, or replaces in, the roles of the zygote: name to
        ``module:function``. ``gpu``: also do `kernelgym.cuda.zygote_warmup`."""
        self._roles = dict(roles or {})
        self._gpu = gpu
        self._start_timeout_s = start_timeout_s
        self._fork_timeout_s = fork_timeout_s
        self._running: _Running | None = None
        self._start_lock = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Start the zygote and return when it has imported torch; flavours wake up meanwhile."""
        self._current()

    @property
    def pid(self) -> int | None:
        """Process id of the root, None when it does not run."""
        running = self._running
        return running.process.pid if running is not None and self.alive() else None

    def alive(self) -> bool:
        """Whether the zygote's root runs now."""
        running = self._running
        return running is not None and running.process.poll() is None

    def fork(
        self,
        flavour: str,
        role: str,
        spec: JailSpec,
        fds: Sequence[int],
        env: Mapping[str, str],
    ) -> Launched:
        """A new jailed process running ``role`` with these descriptors and exactly this
        environment.

        The caller keeps its own copies of ``fds``. Raises `SandboxError` when the jail could not be
        made, `TransportError` when two zygotes in a row died or did not answer.
        """
        message = {"role": role, "spec": dataclasses.asdict(spec), "env": dict(env)}
        try:
            answer, received = self._ask(flavour, message, fds)
        except TransportError:
            answer, received = self._ask(flavour, message, fds)
        if "error" in answer:
            raise SandboxError(f"no process for role {role!r}: {answer['error']}")
        return Launched(
            pid=answer["pid"],
            pidfd=received[0],
            status_fd=received[1],
            level=answer["level"],
            missing=tuple(answer["missing"]),
            cgroup=answer["cgroup"],
            ready_ms=answer["ready_ms"],
        )

    def _ask(
        self, flavour: str, message: dict[str, Any], fds: Sequence[int]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        running = self._current()
        go_read, go_write = os.pipe()
        try:
            answer = running.request(
                flavour, message, [*fds, go_read], time.monotonic() + self._fork_timeout_s
            )
            with contextlib.suppress(BrokenPipeError):  # refused, or dead already
                os.write(go_write, b"1")
        except TransportError as error:
            last_words = running.last_words()
            self._discard(running)
            raise TransportError(f"{error}\n{last_words}".strip()) from error
        finally:
            os.close(go_read)
            os.close(go_write)
        return answer

    def _current(self) -> _Running:
        with self._start_lock:
            if self._closed:
                raise TransportError("the zygote was closed")
            if self._running is not None and self._running.process.poll() is not None:
                self._running.kill()
                self._running = None
            if self._running is None:
                deadline = time.monotonic() + self._start_timeout_s
                self._running = _Running(self._roles, deadline, gpu=self._gpu)
            return self._running

    def _discard(self, running: _Running) -> None:
        with self._start_lock:
            if self._running is running:
                running.kill()
                self._running = None

    def close(self) -> None:
        """End the zygote and everything it launched."""
        with self._start_lock:
            self._closed = True
            if self._running is not None:
                self._running.kill()
                self._running = None
