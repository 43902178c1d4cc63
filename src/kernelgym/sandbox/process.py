"""Small steps of a freshly forked process: descriptors, environment, signals, limits.

They run in the child of a single-threaded process and touch nothing but that child.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
import sys
from collections.abc import Collection, Iterable

from kernelgym.sandbox import linux

MAX_OPEN_FILES = 4096
_SIGNALS = range(1, 32)
"""Those that anybody installs handlers for; asking about all 64 takes a millisecond."""
_NO_DESCRIPTOR = 2**31 - 1
"""Above every descriptor; closing up to here is one system call."""
OOM_SCORE = 900
"""Of a jailed process: when the machine runs out of memory, it goes first."""


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor that is not in ``keep``."""
    low = 0
    for fd in sorted(set(keep)):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, _NO_DESCRIPTOR)


def silence_standard_streams() -> None:
    """Make descriptors 0, 1 and 2 /dev/null: a flood costs nothing."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd, inheritable=True)
    if null > 2:
        os.close(null)


def stay_on(processors: Collection[int]) -> None:
    """Run on these only, children too; on all where none is named or they cannot be had."""
    if processors:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, processors)


def reset_signals() -> None:
    """Drop handlers and blocked signals that the parent had."""
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in _SIGNALS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def clean_environment(home: str, *, gpu: bool) -> None:
    """Replace the environment by a minimal one, and erase the block the parent was started with.

    Copies that the parent's code made on its heap stay there: a process that forks jails must be
    started without secrets in the first place.
    """
    block = environment_block()
    library_path = os.environ.get("LD_LIBRARY_PATH")
    os.environ.clear()
    if block:
        linux.erase(*block)
    os.environ.update(
        HOME=home,
        TMPDIR=home,
        USER="jail",
        LOGNAME="jail",
        LANG="C.UTF-8",
        PATH=f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
    )
    if gpu and library_path:
        os.environ["LD_LIBRARY_PATH"] = library_path


@functools.cache
def environment_block() -> tuple[int, int] | None:
    """Where the kernel put the environment at exec (fields 50 and 51 of /proc/self/stat).

    The same in every fork, so the parent asks first.
    """
    try:
        with open("/proc/self/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        start, end = int(fields[47]), int(fields[48])
    except (OSError, IndexError, ValueError):
        return None
    return (start, end) if 0 < start < end else None


def limit_resources(file_bytes: int, processes: int | None) -> None:
    """Set resource limits; never RLIMIT_AS, which CUDA's reservations do not survive."""
    limits = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_MSGQUEUE, 0),
    ]
    if processes is not None:
        limits.append((resource.RLIMIT_NPROC, processes))
    for kind, wanted in limits:
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))


def be_first_to_go() -> None:
    """Ask the kernel to pick this process first when the whole machine is out of memory."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(OOM_SCORE))


def hide() -> None:
    """Keep other processes of our user out of this one's memory, descriptors and environment.

    For the worker, the zygote and the judge: at L0 a jail may run as the same user.
    """
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
