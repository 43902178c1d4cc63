"""One judge process, from the host's side: talk to it, serve it, bury it.

The judge asks for processes and for their end; everything it was given is ended with it. It says
what it does and how long that may take; when it stays silent longer, it is killed, and what it was
doing decides who is blamed: the reference or the judge itself, never the candidate.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import select
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from kernelgym.errors import KernelGymError, TaskError, TransportError
from kernelgym.judge.gate import open_description
from kernelgym.judge.link import HEADER, MAX_BODY_BYTES, Message, pack
from kernelgym.sandbox import outside_clock
from kernelgym.sandbox.jail import Ended, JailSpec
from kernelgym.schema import Submission
from kernelgym.worker.processes import Confined, Flavour, Processes, pipe, socket_pair

SILENCE_GRACE_S = 5.0
"""On top of what the judge said a stage may take: its own alarm goes first."""
START_LIMIT_S = 30.0


class JudgeFault(KernelGymError):
    """The judge failed; ``code`` is that of the failure. The candidate is not to blame."""

    def __init__(self, code: str, message: str, *, traceback: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.traceback = traceback


class JudgeProcess:
    """A judge and the processes that it was given."""

    def __init__(
        self,
        processes: Processes,
        *,
        spec: JailSpec,
        flavours: dict[str, Flavour],
        environment: dict[str, str] | None = None,
        gate: str | None = None,
    ) -> None:
        """``spec``: jail of the judge; its processes get the same with their own memory.

        ``flavours``: which zygote forks which role. ``environment``: of all of them. ``gate``: lock
        file of the GPU; the judge gets a file description of its own, and nobody else keeps it.
        """
        self._environment = dict(environment or {})
        self._gate = gate
        self._processes = processes
        self._spec = spec
        self._flavours = flavours
        self._confined: Confined | None = None
        self._sock: socket.socket | None = None
        self._given: dict[int, Confined] = {}
        self._handles = itertools.count(1)
        self._sending = asyncio.Lock()
        self._errands: set[asyncio.Task[None]] = set()
        self._errand_error: TransportError | None = None
        self._memory_bytes = spec.memory_bytes
        self.processors = spec.processors
        """Where it runs, and what it has started; empty: anywhere."""
        self.stage = "start"
        """What the judge said it does."""
        self.is_open = False
        """Whether it has loaded its task."""
        self.on_stage: Callable[[str], None] = lambda _: None
        """Called with each stage that it reports."""

    async def start(self) -> None:
        """Fork it; it is up when it has answered the first request."""
        ours, theirs = socket_pair()
        ours.setblocking(False)
        gate = [] if self._gate is None else [open_description(self._gate)]
        with theirs:
            try:
                spec = dataclasses.replace(self._spec, trusted=True)
                passed = [theirs.fileno(), *gate]
                self._confined = await self._processes.spawn(
                    self._flavours["judge"], "judge", spec, passed, self._environment
                )
            except BaseException:
                ours.close()
                raise
            finally:
                for fd in gate:
                    os.close(fd)
        self._sock = ours

    def is_alive(self) -> bool:
        """Whether its process runs."""
        if self._confined is None:
            return False
        poller = select.poll()
        poller.register(self._confined.launched.pidfd, select.POLLIN)
        return not poller.poll(0)

    async def open(self, fields: Message) -> Message:
        """Have it load a task; raises `TaskError` when the reference is at fault."""
        opened = await self._ask({"type": "open", **fields}, "opened")
        self.is_open = True
        return opened

    async def evaluate(self, submission: Submission) -> Message:
        """Have it judge a candidate; ``result`` and ``stage_seconds``."""
        self._memory_bytes = submission.memory_mb << 20
        request = {"type": "evaluate", "submission": submission.model_dump(mode="json")}
        return await self._ask(request, "result")

    async def close(self) -> Ended | None:
        """End it and everything it was given."""
        for errand in list(self._errands):
            errand.cancel()
        await asyncio.gather(*self._errands, return_exceptions=True)
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        ended = None
        if self._confined is not None:
            ended = await self._processes.end(self._confined)
            self._confined = None
        await asyncio.gather(*(self._processes.end(one) for one in self._given.values()))
        self._given.clear()
        return ended

    # --- conversation ----------------------------------------------------------------------------

    async def _ask(self, request: Message, wanted: str) -> Message:
        await self._send(request)
        limit_s = START_LIMIT_S
        while True:
            message = await self._receive(limit_s + SILENCE_GRACE_S)
            kind = message["type"]
            if kind == "stage":
                self.stage, limit_s = message["name"], message["limit_s"]
                self.on_stage(self.stage)
            elif kind in ("spawn", "kill", "clock"):
                self._run_errand(message)
            elif kind == "fault":
                raise JudgeFault(
                    message["code"], message["message"], traceback=message.get("traceback", "")
                )
            elif kind == wanted and "error" in message:
                error = message["error"]
                raise TaskError(error["code"], error["message"], traceback=error["traceback"])
            elif kind == wanted:
                return message
            elif kind != "ready":
                raise TransportError(f"a judge sent {kind!r} out of turn")

    def _run_errand(self, message: Message) -> None:
        works = {"spawn": self._spawn, "kill": self._kill, "clock": self._clock}
        errand = asyncio.create_task(self._do(works[message["type"]](message)))
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        """An errand that fails ends the conversation: the judge would wait for ever."""
        try:
            await work
        except (KernelGymError, OSError, KeyError) as error:
            self._errand_error = TransportError(f"an errand of the judge failed: {error!r}")
            if self._sock is not None:
                self._sock.shutdown(socket.SHUT_RDWR)

    async def _spawn(self, message: Message) -> None:
        ticket, role = message["ticket"], message["role"]
        seals = self._spec.gpu and role == "candidate"
        spec = dataclasses.replace(self._spec, memory_bytes=self._memory_bytes, seals=seals)
        channel, theirs = socket_pair()
        evidence = pipe() if role == "candidate" else ()
        passed = [theirs.fileno(), *evidence[1:]]
        try:
            confined = await self._processes.spawn(
                self._flavours[role], role, spec, passed, self._environment
            )
            handle = next(self._handles)
            self._given[handle] = confined
            launched = confined.launched
            answer: Message = {
                "type": "spawned",
                "ticket": ticket,
                "handle": handle,
                "level": launched.level,
                "missing": list(launched.missing),
            }
            await self._send(answer, [channel.fileno(), *evidence[:1]])
        except KernelGymError as error:
            await self._send({"type": "refused", "ticket": ticket, "message": str(error)})
        finally:
            channel.close()
            theirs.close()
            for fd in evidence:
                os.close(fd)

    async def _kill(self, message: Message) -> None:
        confined = self._given.pop(message["handle"])
        ended = await self._processes.end(confined, grace_s=message["grace_s"])
        answer = {"type": "ended", "ticket": message["ticket"], "ended": dataclasses.asdict(ended)}
        await self._send(answer)

    async def _clock(self, message: Message) -> None:
        confined = self._given.get(message["handle"])
        clock = None if confined is None else outside_clock.read(confined.launched.pid)
        fields = None if clock is None else dataclasses.asdict(clock)
        await self._send({"type": "clock", "ticket": message["ticket"], "clock": fields})

    # --- bytes -----------------------------------------------------------------------------------

    async def _send(self, message: Message, fds: list[int] | None = None) -> None:
        data = pack(message, len(fds or ()))
        loop = asyncio.get_running_loop()
        async with self._sending:
            assert self._sock is not None
            try:
                if fds:
                    sent = socket.send_fds(self._sock, [data], fds)
                    data = data[sent:]
                await loop.sock_sendall(self._sock, data)
            except OSError as error:
                raise TransportError(f"the judge went away: {error}") from error

    async def _receive(self, limit_s: float) -> Message:
        """The next message. Time that an errand of ours takes is not the judge's silence."""
        reader = asyncio.ensure_future(self._read())
        try:
            while not (await asyncio.wait({reader}, timeout=limit_s))[0]:
                if not self._errands:
                    raise self._silent(limit_s)
            return reader.result()
        finally:
            reader.cancel()

    async def _read(self) -> Message:
        length, _ = HEADER.unpack(await self._exactly(HEADER.size))
        if length > MAX_BODY_BYTES:
            raise TransportError(f"a judge sent {length} bytes")
        body = await self._exactly(length)
        try:
            message: Any = json.loads(body)
            message["type"]
        except (ValueError, KeyError, TypeError) as error:
            raise TransportError("a judge sent what is not a message") from error
        return dict(message)

    async def _exactly(self, size: int) -> bytes:
        loop, parts = asyncio.get_running_loop(), []
        while size > 0:
            assert self._sock is not None
            try:
                data = await loop.sock_recv(self._sock, size)
            except OSError:
                data = b""
            if not data:
                raise await self._dead()
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def _silent(self, limit_s: float) -> KernelGymError:
        text = f"no sign of life for {limit_s:.0f} s in stage {self.stage!r}"
        if self.stage.startswith("reference"):
            return TaskError("reference_timeout", f"the reference hangs: {text}")
        return JudgeFault("judge_timeout", f"the judge hangs: {text}")

    async def _dead(self) -> KernelGymError:
        """Why the link was closed; the process is ended to find out."""
        if self._errand_error is not None:
            return self._errand_error
        ended = None
        if self._confined is not None:
            confined, self._confined = self._confined, None
            with suppress(KernelGymError):
                ended = await self._processes.end(confined, grace_s=0.5)
        how = _how(ended)
        in_reference = self.stage.startswith("reference")
        if ended is not None and ended.oom_killed:
            text = "memory ran out in the judge's process"
            if in_reference:
                return TaskError("reference_does_not_fit", f"{text}, in stage {self.stage!r}")
            return JudgeFault("judge_out_of_memory", text)
        if in_reference and ended is not None and _by_itself(ended):
            return TaskError("reference_crashed", f"the reference ended its process: {how}")
        return JudgeFault("judge_died", f"the judge died in stage {self.stage!r}: {how}")


def _by_itself(ended: Ended) -> bool:
    """Whether the process ended other than by somebody's SIGKILL."""
    status = ended.status
    return status is not None and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9)


def _how(ended: Ended | None) -> str:
    if ended is None or ended.status is None:
        return "killed"
    if os.WIFEXITED(ended.status):
        return f"exit status {os.WEXITSTATUS(ended.status)}"
    return f"signal {os.WTERMSIG(ended.status)}"
