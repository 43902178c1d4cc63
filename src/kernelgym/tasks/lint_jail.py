"""The lint for tasks from elsewhere: each runs in a process of its own, in a jail.

    with LintJail() as jail:
        report = jail.lint(task)

A task that hangs, dies or takes all memory gets a report that says so. Imports no torch.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pydantic import ValidationError

from kernelgym.sandbox.ending import end
from kernelgym.sandbox.jail_spec import Ended, JailSpec
from kernelgym.sandbox.zygote_client import ZygoteClient
from kernelgym.schema import JailLevel, Protocol, Task
from kernelgym.tasks.lint_report import LintFinding, LintReport

if TYPE_CHECKING:
    from kernelgym.sandbox.jail_spec import Launched

_ROLE = {"lint": "kernelgym.tasks.lint_process:main"}
_MAX_ANSWER_BYTES = 1 << 20
DEFAULT_MEMORY_MB = 8192


class LintJail:
    """A zygote that forks one jailed process a task."""

    def __init__(
        self,
        *,
        jail_level: JailLevel = "L1",
        fallback: bool = False,
        memory_mb: int = DEFAULT_MEMORY_MB,
        hidden: Iterable[str] = (),
    ) -> None:
        """``fallback``: take a lower level where ``jail_level`` cannot be had.

        ``hidden``: directories that the tasks may not see, besides this checkout.
        """
        self._spec = JailSpec(
            level=jail_level,
            memory_bytes=memory_mb << 20,
            processes=64,
            hidden=(*hidden, *_checkout()),
            fallback=fallback,
        )
        self._zygote = ZygoteClient(roles=_ROLE)

    def __enter__(self) -> Self:
        """Start the zygote."""
        self._zygote.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it and whatever still runs."""
        self._zygote.close()

    def lint_all(
        self,
        tasks: Iterable[Task],
        *,
        workers: int = 2,
        protocol: Protocol = "standard",
        limit_s: float = 120.0,
    ) -> Iterator[LintReport]:
        """Reports in the order of the tasks."""
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(
                lambda task: self.lint(task, protocol=protocol, limit_s=limit_s), tasks
            )

    def lint(
        self,
        task: Task,
        *,
        protocol: Protocol = "standard",
        limit_s: float = 120.0,
        seed: int = 0,
    ) -> LintReport:
        """Lint one task; ``limit_s`` bounds all of it."""
        started = time.monotonic()
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                launched = self._zygote.fork("native", "lint", self._spec, [theirs.fileno()], {})
            request = {
                "task": task.model_dump(mode="json"),
                "protocol": protocol,
                "limit_s": limit_s,
                "seed": seed,
            }
            answer, why = _converse(ours, json.dumps(request).encode() + b"\n", limit_s)
            ended = _end(launched, answered=bool(answer))
        if answer:
            try:
                return LintReport.model_validate_json(answer)
            except ValidationError:
                why = "it answered what is not a report"
        return _failed(task, protocol, why, ended, time.monotonic() - started)


def _checkout() -> list[str]:
    root = Path(__file__).resolve().parents[3]
    return [str(root)] if (root / "pyproject.toml").is_file() else []


def _converse(sock: socket.socket, request: bytes, limit_s: float) -> tuple[bytes, str]:
    """The answer, or why there is none."""
    deadline = time.monotonic() + limit_s
    answer = b""
    try:
        sock.settimeout(limit_s)
        sock.sendall(request)
        while not answer.endswith(b"\n"):
            sock.settimeout(max(0.01, deadline - time.monotonic()))
            part = sock.recv(1 << 16)
            if not part:
                return b"", "died"
            answer += part
            if len(answer) > _MAX_ANSWER_BYTES:
                return b"", "it answered what is not a report"
    except TimeoutError:
        return b"", "hung"
    except OSError:
        return b"", "died"
    return answer, ""


def _end(launched: Launched, *, answered: bool) -> Ended:
    return end(launched, grace_s=0.0 if answered else 0.2)


def _failed(task: Task, protocol: Protocol, why: str, ended: Ended, seconds: float) -> LintReport:
    if ended.oom_killed:
        code, text = "reference_does_not_fit", "the reference took all memory it was given"
    elif why == "hung":
        code, text = "reference_timeout", f"no report within {seconds:.0f} s"
    elif why == "died":
        code, text = "reference_crashed", "the reference ended its process"
    else:
        code, text = "reference_forged", f"the task interfered with its report: {why}"
    finding = LintFinding(id=code, severity="fault", message=text)
    return LintReport(task=task.name, protocol=protocol, findings=(finding,), seconds=seconds)
