"""A judge in this process, with the probes that a test hands it. The candidate is jailed as always.

The caller of a judge chooses its probes; nothing else can. So a test that leaves one out is such a
caller.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from kernelgym.judge import provenance, repeat, verdict
from kernelgym.judge.gate import Gate
from kernelgym.judge.link import Spawned
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.probes import PROBES, Probe
from kernelgym.judge.stopwatch import Stopwatch
from kernelgym.sandbox import jail
from kernelgym.sandbox.jail_spec import Ended, JailSpec
from kernelgym.sandbox.zygote_client import ZygoteClient
from kernelgym.schema import EvalResult, Submission


class LocalLink:
    """What a judge asks its host for, from a zygote of our own."""

    def __init__(self, zygote: ZygoteClient) -> None:
        self._zygote = zygote
        self._tickets: dict[int, Any] = {}
        self._launched: dict[int, Any] = {}

    def stage(self, name: str, limit_s: float) -> None:
        """Nobody watches."""

    def ask_spawn(self, role: str) -> int:
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        spec = JailSpec(level="none", memory_bytes=4 << 30)
        fds = [theirs.fileno(), write] if role == "candidate" else [theirs.fileno()]
        launched = self._zygote.fork("interpret", role, spec, fds, {})
        theirs.close()
        os.close(write)
        ticket = len(self._tickets)
        self._launched[ticket] = launched
        message = {"handle": ticket, "level": launched.level, "missing": []}
        self._tickets[ticket] = Spawned(message, [ours.detach(), read])
        return ticket

    def spawned(self, ticket: int) -> Spawned:
        return self._tickets[ticket]

    def ask_kill(self, handle: int, *, grace_s: float = 0.0) -> int:
        ticket = len(self._tickets)
        self._tickets[ticket] = jail.end(self._launched.pop(handle), grace_s=grace_s)
        return ticket

    def ended(self, ticket: int) -> Ended:
        return self._tickets[ticket]


class LocalJudge:
    """Prepares each task once."""

    def __init__(self, zygote: ZygoteClient) -> None:
        self._zygote = zygote
        self._tasks: dict[str, PreparedTask] = {}

    def evaluate(self, submission: Submission, probes: Sequence[Probe] = PROBES) -> EvalResult:
        key = submission.task.content_hash
        if key not in self._tasks:
            self._tasks[key] = PreparedTask(
                submission.task, "fp32", device="cpu", limit_s=60.0, memory_bytes=2 << 30
            )
        task = self._tasks[key]
        link: Any = LocalLink(self._zygote)
        watch = Stopwatch("start")
        dossier, modes = repeat.evaluate(task, submission, link, watch, Gate(None), probes)
        ruling = verdict.rule(dossier, submission, task.study, modes)
        record = provenance.provenance(submission, task, dossier, ruling)
        return verdict.result(submission, dossier, ruling, record)


def without(name: str) -> tuple[Probe, ...]:
    """All probes but one."""
    return tuple(probe for probe in PROBES if probe.name != name)
