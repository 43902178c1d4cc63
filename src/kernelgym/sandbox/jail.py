"""The jail: run a function in a process that can hurt nobody, and end it for certain.

`launch` forks from the calling process, which must have one thread; `end` may be called in another
process that was handed what `launch` returned. Levels: ``L1`` (namespaces), ``L0`` (without), and
``none``. docs/jail.md says what each stops; `kernelgym.sandbox.selftest` tries it out.

    launch -> fork -> keeper (`keeper`; at L1 pid 1 of the namespace) -> fork -> main, confined

Not covered: faults of the kernel or of a GPU driver. Both sides share them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from kernelgym.errors import SandboxError
from kernelgym.sandbox import cgroup, confinement, keeper, linux, namespaces, process
from kernelgym.sandbox.ending import end
from kernelgym.sandbox.jail_spec import Ended, JailSpec, Launched
from kernelgym.sandbox.view import plan_view

__all__ = ["Ended", "JailSpec", "Launched", "end", "launch", "reap", "sweep"]

START_LIMIT_S = 20.0
"""A jail that is not ready by then has failed."""
_MAX_REPORT_BYTES = 1 << 16
_DIRECTORY = re.compile(rf"(?:{keeper.WORK_PREFIX}|{keeper.ZYGOTE_PREFIX})(\d+)-")
"""Of a jail or a zygote, with the pid of who made it."""

_keepers: set[int] = set()
"""Keepers forked here and not reaped yet."""


def launch(spec: JailSpec, main: Callable[[], None], keep: Sequence[int]) -> Launched:
    """Run ``main`` in a jail, with only the descriptors in ``keep`` besides 0, 1 and 2 (null).

    Returns in the parent, when the jail is in force and ``main`` is about to be entered. Raises
    `SandboxError` when the level asked for cannot be had and ``spec.fallback`` is off.
    """
    if any(fd <= 2 for fd in keep):
        raise ValueError("descriptors 0, 1 and 2 belong to the jail")
    reap()
    if spec.level != "none":
        process.hide()  # at L0 a guest may run as our user
    refusals: list[str] = []
    for way in _ways(spec):
        try:
            return _launch(way, main, keep)
        except SandboxError as error:
            refusals.append(f"{way.name}: {error}")
    raise SandboxError(
        f"no jail of level {spec.level}: " + "; ".join(refusals),
        hint="kernelgym doctor",
    )


def reap() -> None:
    """Collect keepers that have ended, so that they do not stay as zombies of this process."""
    for pid in list(_keepers):
        try:
            gone = os.waitpid(pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            gone = True
        if gone:
            _keepers.discard(pid)


def sweep() -> int:
    """Remove what jails of dead workers left on the host: groups, directories of jails and zygotes.

    For a worker's start, or after a keeper was killed; a directory of a live process is kept. Not
    for workers that share a temporary directory but no process numbers: they cannot tell.
    """
    removed = cgroup.sweep()
    top = tempfile.gettempdir()
    for name in os.listdir(top):
        match = _DIRECTORY.match(name)
        if match is not None and not os.path.exists(f"/proc/{match[1]}"):
            shutil.rmtree(os.path.join(top, name), ignore_errors=True)  # follows no link
            removed += 1
    return removed


def _ways(spec: JailSpec) -> list[keeper.Way]:
    """How to try, best first."""
    if spec.level == "none":
        return [keeper.Way("none", spec)]
    ways: list[keeper.Way] = []
    if spec.level == "L1":
        if namespaces.is_privileged():
            ways.append(keeper.Way("root", spec))
        else:
            ways.append(keeper.Way("user", spec))
    if spec.level == "L0" or spec.fallback:
        ways.append(keeper.Way("plain", replace(spec, level="L0")))
    return ways


def _launch(way: keeper.Way, main: Callable[[], None], keep: Sequence[int]) -> Launched:
    started = time.perf_counter()
    spec = way.spec
    group = cgroup.create(spec) if spec.level != "none" else cgroup.NO_GROUP
    view = plan_view(spec) if spec.level == "L1" else None
    if spec.level == "L1":  # what is worked out here is not worked out again in the child
        confinement.filter_of(spec, alone=True, polled="memory_cgroup" in group.missing)
    process.environment_block()
    report_read, report_write = os.pipe()
    status_read, status_write = os.pipe()
    go_read, go_write = os.pipe()
    birth = keeper.Birth(
        way=way,
        main=main,
        keep=tuple(keep),
        group=group,
        view=view,
        first_uid=confinement.choose_uid(way.name, spec, view),
        work=None if spec.level == "L1" else keeper.make_work_directory(),
        report_fd=report_write,
        status_fd=status_write,
        go_fd=go_read,
    )
    before = set(_keepers)
    try:
        pid = _fork(birth)
        os.close(report_write)
        report_write = -1
        if way.name == "root":
            group.put_in(pid)  # where it was not born inside
            os.write(go_write, b"1")
        pid, missing = _handshake(pid, report_read)
        pidfd = os.pidfd_open(pid)
    except BaseException:
        os.close(status_read)
        _abandon(_keepers - before, birth)
        raise
    finally:
        for fd in (report_read, status_write, go_read, go_write):
            os.close(fd)
        if report_write >= 0:
            os.close(report_write)
        group.close()
    ready_ms = (time.perf_counter() - started) * 1e3
    return Launched(
        pid, pidfd, status_read, spec.level, tuple(missing), group.name, round(ready_ms, 3)
    )


def _fork(birth: keeper.Birth) -> int:
    """Fork the keeper (or, through a user namespace, the process that will fork it)."""
    if birth.way.name == "user":
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # the keeper is a grandchild: inherit it
    in_new_pid_namespace = (
        birth.way.name == "root" and "pid_namespace" not in birth.way.spec.without
    )
    with namespaces.next_child_is_init() if in_new_pid_namespace else contextlib.nullcontext():
        pid = birth.group.fork()
        if pid == 0:
            keeper.run(birth)
    _keepers.add(pid)
    return pid


def _handshake(pid: int, report_fd: int) -> tuple[int, list[str]]:
    """Read what the child has to say until it is ready; the keeper's pid and what is missing."""
    deadline = time.monotonic() + START_LIMIT_S
    buffer = b""
    while True:
        line, newline, rest = buffer.partition(b"\n")
        if newline:
            buffer = rest
            message = json.loads(line)
            if "keeper" in message:
                _keepers.add(message["keeper"])
                os.waitpid(pid, 0)
                _keepers.discard(pid)
                pid = message["keeper"]
            elif "ready" in message:
                return pid, message["missing"]
            else:
                raise SandboxError(message["error"])
            continue
        buffer += _read_report(report_fd, deadline, len(buffer))


def _read_report(fd: int, deadline: float, so_far: int) -> bytes:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    if not poller.poll(max(0.0, deadline - time.monotonic()) * 1e3):
        raise SandboxError(f"the jail was not ready after {START_LIMIT_S:.0f} s")
    data = os.read(fd, 4096)
    if not data or so_far > _MAX_REPORT_BYTES:
        raise SandboxError("the jail went away before it was ready")
    return data


def _abandon(pids: set[int], birth: keeper.Birth) -> None:
    """Undo a start that failed: no line of the guest has run yet."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        _keepers.discard(pid)
    if birth.group.name is not None:
        cgroup.kill_members(birth.group.name)
        cgroup.remove(birth.group.name)
    if birth.work is not None:
        with contextlib.suppress(OSError):
            os.rmdir(birth.work)
