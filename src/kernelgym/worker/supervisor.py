"""Keeps programs of one machine running: restarts what dies or hangs, leaves nothing behind.

A program that promises beats and is silent for too long is killed like one that died. Whatever a
program leaves behind becomes a child of the supervisor (it is their subreaper) and is killed. A
supervisor that is itself killed takes its programs along: they get SIGTERM from the kernel.

Single-threaded and blocking, without asyncio: nothing in here can hang with what it watches.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelgym.errors import ServiceError

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TICK_S = 0.1
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 30.0
"""A program that ran for so long has started well."""
_GIVE_UP_AFTER = 5
"""Failed starts in a row."""
_KILL_S = 5.0
_libc = ctypes.CDLL(None, use_errno=True)
log = logging.getLogger("kernelgym.supervisor")


@dataclass
class Program:
    """A program to keep running."""

    name: str
    command: Sequence[str]
    stdin: Callable[[int], bytes] = lambda _: b""
    """What it reads, secrets included; the number says which start this is."""
    environment: dict[str, str] = field(default_factory=dict)
    beats_s: float | None = None
    """It writes a byte to the descriptor in ``KERNELGYM_BEAT_FD`` more often than this; None for a
    program that does not."""
    ended: Callable[[int], None] = lambda _: None
    """Called after each unexpected end, with the number of the start."""
    grace_s: float = 15.0
    """How long it may take to stop."""


@dataclass
class _Running:
    program: Program
    process: subprocess.Popen[bytes] | None = None
    number: int = 0
    beat_fd: int = -1
    last_beat: float = 0.0
    started: float = 0.0
    start_at: float = 0.0
    failures: int = 0


class Supervisor:
    """Runs programs until it is told to stop."""

    def __init__(self, programs: Sequence[Program], *, spare: Callable[[], set[int]]) -> None:
        """``spare``: children that are somebody else's business, and must not be killed."""
        self._running = [_Running(program) for program in programs]
        self._spare = spare
        self._stopping = False

    def add(self, program: Program) -> None:
        """Run one more; it is stopped before those that were there first."""
        self._running.append(_Running(program))

    def stop(self, *_: object) -> None:
        """End `run`; may be a signal handler."""
        self._stopping = True

    def pids(self) -> dict[str, int]:
        """Process ids by name, of those that run."""
        return {r.program.name: r.process.pid for r in self._running if r.process is not None}

    def run(self, *, tick: Callable[[], None] = lambda: None) -> None:
        """Keep the programs running; ``tick`` is called several times a second."""
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            while not self._stopping:
                for running in self._running:
                    self._look_after(running)
                tick()
                self._read_beats()
        finally:
            self._stop_all()

    def _look_after(self, running: _Running) -> None:
        now = time.monotonic()
        process = running.process
        if process is None:
            if now >= running.start_at:
                self._start(running)
            return
        status = process.poll()
        if status is None and self._is_hung(running, now):
            log.warning("program hangs", extra={"program": running.program.name})
            process.kill()
            status = process.wait()
        if status is not None:
            self._has_ended(running, status)

    def _is_hung(self, running: _Running, now: float) -> bool:
        limit_s = running.program.beats_s
        return limit_s is not None and now - running.last_beat > limit_s

    def _start(self, running: _Running) -> None:
        program = running.program
        running.number += 1
        read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)
        parent = os.getpid()

        def prepare() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

        running.process = subprocess.Popen(
            program.command,
            stdin=subprocess.PIPE,
            env={**os.environ, **program.environment, "KERNELGYM_BEAT_FD": str(write_fd)},
            pass_fds=(write_fd,),
            start_new_session=True,  # a Ctrl-C is ours to pass on
            preexec_fn=prepare,
        )
        os.close(write_fd)
        running.beat_fd, running.started = read_fd, time.monotonic()
        running.last_beat = running.started
        assert running.process.stdin is not None
        try:
            running.process.stdin.write(program.stdin(running.number))
            running.process.stdin.close()
        except BrokenPipeError:
            log.warning("program does not listen", extra={"program": program.name})

    def _has_ended(self, running: _Running, status: int) -> None:
        self._close(running)
        name = running.program.name
        log.warning("program ended", extra={"program": name, "status": status})
        self._kill_strays()
        running.program.ended(running.number)
        if time.monotonic() - running.started > _STEADY_S:
            running.failures = 0
        running.failures += 1
        if running.failures >= _GIVE_UP_AFTER and status > 0:
            raise ServiceError(f"{name} does not start (exit status {status}); see its log")
        pause_s = min(_FIRST_PAUSE_S * 2 ** (running.failures - 1), _LONGEST_PAUSE_S)
        running.start_at = time.monotonic() + pause_s

    def _close(self, running: _Running) -> None:
        running.process = None
        if running.beat_fd >= 0:
            os.close(running.beat_fd)
            running.beat_fd = -1

    def _read_beats(self) -> None:
        by_fd = {running.beat_fd: running for running in self._running if running.beat_fd >= 0}
        readable, _, _ = select.select(list(by_fd), [], [], _TICK_S)
        got_something = False
        for fd in readable:
            if os.read(fd, 4096):
                by_fd[fd].last_beat = time.monotonic()
                got_something = True
        if readable and not got_something:
            time.sleep(_TICK_S)  # ends of pipes: their programs are ending

    def _stop_all(self) -> None:
        for running in reversed(self._running):
            process = running.process
            if process is None:
                continue
            process.terminate()
            try:
                process.wait(running.program.grace_s)
            except subprocess.TimeoutExpired:
                log.warning("program killed", extra={"program": running.program.name})
                process.kill()
                process.wait()
            self._close(running)
        self._kill_strays()

    def _kill_strays(self) -> None:
        """End what programs left behind, and what that leaves behind."""
        deadline = time.monotonic() + _KILL_S
        while (strays := self._strays()) and time.monotonic() < deadline:
            for pid in strays:
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, os.WNOHANG)
                except (ProcessLookupError, ChildProcessError):
                    continue
            time.sleep(0.01)

    def _strays(self) -> set[int]:
        return children_of(os.getpid()) - set(self.pids().values()) - self._spare()


def children_of(pid: int) -> set[int]:
    """Processes whose parent is ``pid``."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.add(int(entry.name))
    return found
