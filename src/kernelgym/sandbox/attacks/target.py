"""What there is to attack, and how an attempt is made: shared by the attacks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from kernelgym.sandbox import linux

PROBE = ".kernelgym-probe"
"""Start of the names of files that an attack makes and removes."""


@dataclass(frozen=True)
class Target:
    """What there is to attack."""

    pids: tuple[int, ...] = ()
    """Processes of the host, as the host numbers them."""
    write: tuple[str, ...] = ()
    """Directories and files that must not be writable."""
    read: tuple[str, ...] = ()
    """Files and directories that must not be readable."""
    tcp_port: int = 0
    """Port of a listener on the host's loopback."""
    unix_addresses: tuple[str, ...] = ()
    """Unix listeners of the host; a leading ``@`` means an abstract name."""
    descriptors: tuple[int, ...] = ()
    """Descriptors that the jail was meant to hand over."""
    sealed: bool = False
    """Device nodes of GPUs must not open either."""
    secret: str = ""
    """Value of an environment variable of the host."""

    def strangers(self) -> list[int]:
        """Pids to attack; those that are our own or our keeper's by a coincidence of namespaces
        (in a container the host's pids are small too) are left out."""
        return [pid for pid in self.pids if pid not in (os.getpid(), os.getppid())]


def open_close(path: str) -> None:
    """Open a file for reading, no more."""
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))


def succeeds(function: Callable[..., object], *arguments: object) -> bool:
    """Whether a call ends without an ``OSError``."""
    try:
        function(*arguments)
    except (OSError, ValueError):
        return False
    return True


def idle_child() -> tuple[int, int]:
    """A child that ends when the descriptor that comes with its pid is closed."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    os.close(read_end)
    return pid, write_end


def in_child(attempt: Callable[[], object], *, private: bool = False) -> bool:
    """Whether an attempt succeeds in a child; ``private``: with mounts of its own, if it can."""
    pid = os.fork()
    if pid == 0:
        if private:
            with contextlib.suppress(OSError):
                linux.unshare(linux.CLONE_NEWNS)
                linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
        os._exit(0 if succeeds(attempt) else 1)
    return os.waitpid(pid, 0)[1] == 0
