"""Confined processes on behalf of judges: start them, end them, lose none.

Two ways to start one, with the same result. ``zygote``: forked in milliseconds from processes that
have torch and Triton imported. ``exec``: from a fresh interpreter each time, which takes seconds
and shares nothing; for suspicion, for tests, and to show what the zygote saves.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelgym.sandbox.jail import Ended, JailSpec, Launched, end
from kernelgym.sandbox.zygote_client import ZygoteClient

Start = Literal["zygote", "exec"]
Flavour = Literal["native", "interpret"]
END_TIMEOUT_S = 60.0
"""A tree that takes longer to die counts as surviving; hundreds of processes on a busy machine take
seconds."""


@dataclass
class Confined:
    """A running process tree; ``zygote`` is its own one in ``exec`` mode."""

    role: str
    launched: Launched
    zygote: ZygoteClient | None = None


class Processes:
    """Everything that this host has started and not yet ended."""

    def __init__(self, start: Start, *, gpu: bool = False) -> None:
        """``gpu``: processes will use one."""
        self._start = start
        self._gpu = gpu
        self._zygote = ZygoteClient(gpu=gpu)
        self._known: dict[int, Confined] = {}

    @property
    def living(self) -> list[Confined]:
        """Process trees that have not been ended."""
        return list(self._known.values())

    @property
    def zygote_pid(self) -> int | None:
        """The zygote's root process, when it runs."""
        return self._zygote.pid

    async def start(self) -> None:
        """Start the zygote, so that the first evaluation need not."""
        if self._start == "zygote":
            await asyncio.to_thread(self._zygote.start)

    async def spawn(
        self,
        flavour: Flavour,
        role: str,
        spec: JailSpec,
        fds: Sequence[int],
        env: Mapping[str, str],
    ) -> Confined:
        """A process running ``role``; it keeps its own copies of ``fds``."""
        task = asyncio.ensure_future(
            asyncio.to_thread(self._launch, flavour, role, spec, list(fds), dict(env))
        )
        try:
            confined = await asyncio.shield(task)
        except asyncio.CancelledError:
            await self.end(await task)  # it came to life while nobody wanted it any more
            raise
        self._known[id(confined)] = confined
        return confined

    def _launch(
        self, flavour: str, role: str, spec: JailSpec, fds: list[int], env: dict[str, str]
    ) -> Confined:
        if self._start == "zygote":
            return Confined(role, self._zygote.fork(flavour, role, spec, fds, env))
        zygote = ZygoteClient(gpu=self._gpu)
        try:
            return Confined(role, zygote.fork(flavour, role, spec, fds, env), zygote)
        except BaseException:
            zygote.close()
            raise

    async def end(self, confined: Confined, *, grace_s: float = 0.0) -> Ended:
        """Kill a tree and prove it dead; finishes even when the caller is cancelled."""
        self._known.pop(id(confined), None)
        return await asyncio.shield(asyncio.to_thread(self._end, confined, grace_s))

    def _end(self, confined: Confined, grace_s: float) -> Ended:
        try:
            return end(confined.launched, END_TIMEOUT_S, grace_s=grace_s)
        finally:
            if confined.zygote is not None:
                confined.zygote.close()

    async def close(self) -> None:
        """End everything, the zygote last."""
        await asyncio.gather(*(self.end(confined) for confined in self.living))
        await asyncio.to_thread(self._zygote.close)


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends; neither is passed on to programs that are executed."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def pipe() -> tuple[int, int]:
    """Read and write end."""
    return os.pipe()
