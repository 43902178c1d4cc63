"""`kernelgym up` in a process of its own, as a person starts it, and its command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gym_under_test import stop, wait_until


def kernelgym(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from kernelgym.cli.main import run; run()", *arguments]


@contextmanager
def whole_gym(state: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Broker, server and a worker on this machine's CPU; the address is in ``state / "address"``.

    ``state`` is the state directory and comes to be; what goes wrong is written next to it.
    """
    command = kernelgym("up", "--port", "0", "--gpus", "none", "--fallback", *options)
    environment = {**os.environ, "KERNELGYM_STATE_DIR": str(state)}
    with (state.parent / "up.err").open("wb") as errors:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stderr=errors
        )
    try:
        wait_until((state / "address").exists, "the gym's address", process=process)
        yield process
    finally:
        stop(process, 60)
