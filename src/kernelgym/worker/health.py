"""GPU health from outside: every question to the driver goes through a process with a deadline.

A killed CUDA process can sit in the kernel for ever, and so can whoever asks the driver next. So
nothing here waits for more than the deadline, not even for the death of the process it asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

DEADLINE_S = 30.0
_REAP_S = 1.0
CANARY = (sys.executable, "-m", "kernelgym.worker.canary")


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine."""

    index: int
    model: str
    device_class: str
    uuid: str


async def find_gpus(command: Sequence[str] = CANARY, deadline_s: float = DEADLINE_S) -> list[Gpu]:
    """GPUs that the driver knows; none when there is no driver or it does not answer."""
    status, output, _ = await _ask([*command, "list"], deadline_s)
    if status != 0:
        return []
    fields = ("index", "model", "device_class", "uuid")
    return [Gpu(**{name: one[name] for name in fields}) for one in json.loads(output)]


async def gpu_trouble(
    index: int, command: Sequence[str] = CANARY, deadline_s: float = DEADLINE_S
) -> str:
    """'' when a kernel runs there in a fresh process, else what is wrong."""
    status, _, errors = await _ask([*command, "check", str(index)], deadline_s)
    if status == 0:
        return ""
    if status is None:
        return f"the canary did not end within {deadline_s:g} s"
    return f"the canary failed: {errors or f'exit status {status}'}"


async def _ask(command: Sequence[str], deadline_s: float) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(deadline_s):
            output, errors = await process.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REAP_S):  # it may be stuck in the kernel
                await process.wait()
        return None, "", ""
    return process.returncode, output.decode(), errors.decode(errors="replace")[-500:]
