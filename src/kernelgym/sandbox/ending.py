"""Ending a jail from the host: kill the tree, prove it dead, read how it ended, drop its cgroup.

What the guest could write to is never trusted here: the status line comes from the keeper, whose
end of the pipe no guest holds, and no file that a guest left is opened on the host.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from typing import Any

from kernelgym.sandbox import cgroup
from kernelgym.sandbox.jail_spec import Ended, Launched

_MAX_STATUS_BYTES = 4096


def end(launched: Launched, timeout_s: float = 5.0, *, grace_s: float = 0.0) -> Ended:
    """Kill the whole tree, prove it dead, remove its cgroup, close its descriptors.

    ``grace_s``: time that the main process is given to end by itself, for the callers who saw its
    channel close and want its own wait status instead of the one of our kill.
    """
    deadline = time.monotonic() + timeout_s
    if grace_s > 0:
        _wait_readable(launched.status_fd, grace_s)
    gone = _kill(launched, deadline)
    line = _status_line(launched.status_fd)
    usage = cgroup.Usage()
    survivors = 0
    if launched.cgroup is not None:
        if not gone:
            cgroup.kill_members(launched.cgroup)
            gone = _wait_readable(launched.pidfd, 1.0)
        usage = cgroup.usage(launched.cgroup)
        survivors = cgroup.count_members(launched.cgroup)
        if survivors == 0:
            cgroup.remove(launched.cgroup)
    if not gone:
        survivors = max(1, survivors)
    for fd in (launched.pidfd, launched.status_fd):
        with contextlib.suppress(OSError):
            os.close(fd)
    status = line.get("status")
    return Ended(
        status=status if isinstance(status, int) else None,
        oom_killed=usage.oom_killed or line.get("out_of_memory") is True,
        peak_bytes=usage.peak_bytes if usage.peak_bytes is not None else line.get("peak_bytes"),
        survivors=survivors,
    )


def _kill(launched: Launched, deadline: float) -> bool:
    """Kill the tree through its keeper; whether the keeper, and so the tree, is gone."""
    is_init = launched.level == "L1" and "pid_namespace" not in launched.missing
    number = signal.SIGKILL if is_init else signal.SIGTERM
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(launched.pidfd, number)
    return _wait_readable(launched.pidfd, max(0.0, deadline - time.monotonic()))


def _wait_readable(fd: int, seconds: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(seconds * 1e3))


def _status_line(fd: int) -> dict[str, Any]:
    os.set_blocking(fd, False)
    try:
        data = os.read(fd, _MAX_STATUS_BYTES)
    except BlockingIOError:
        return {}
    try:
        line = json.loads(data.partition(b"\n")[0] or b"{}")
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}
