"""Search everything around a process for a secret that is given inverted, as `scan` does inside.

Files, other processes' environment, arguments, mappings and memory, and the descriptors that one
was given. Every search is bounded in bytes and seconds, and says how much it looked at: nothing
found by a search that could look at nothing means little.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field

from kernelgym.sandbox.attacks.scan import holds

_MAX_FILE_BYTES = 4 << 20
_MAX_MAPPING_BYTES = 512 << 20
_PIECE_BYTES = 1 << 20


@dataclass
class Search:
    """What is looked for, what was found and how much was looked at."""

    inverted: bytes
    seconds: float = 10.0
    found: list[str] = field(default_factory=list)
    looked_at: int = 0
    """Files, or pieces of memory, that could be read."""

    def __post_init__(self) -> None:
        """The time runs from now."""
        self._ends = time.monotonic() + self.seconds

    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._ends

    def look(self, place: str, data: bytes) -> None:
        """Look at one piece."""
        self.looked_at += bool(data)
        if holds(data, self.inverted):
            self.found.append(f"secret in {place}")


def files(search: Search, roots: tuple[str, ...]) -> None:
    """Every small regular file below some directories."""
    for root in roots:
        for directory, _, names in os.walk(root):
            for name in names:
                if search.over():
                    return
                _file(search, os.path.join(directory, name))


def _file(search: Search, path: str) -> None:
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_FILE_BYTES:
            return
        with open(path, "rb") as file:
            search.look(path, file.read(_MAX_FILE_BYTES))
    except OSError:
        return


def environment(search: Search) -> None:
    """The own environment, as Python and as the kernel know it."""
    search.look("os.environ", repr(dict(os.environ)).encode())
    _file_of_proc(search, "/proc/self/environ")


def descriptors(search: Search) -> None:
    """What can be read of every file that was handed over, anonymous ones included."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISREG(os.fstat(int(name)).st_mode):
                size = os.fstat(int(name)).st_size
                search.look(f"descriptor {name}", os.pread(int(name), min(size, 256 << 20), 0))
        except (OSError, ValueError):
            continue


def processes(search: Search, *, memory_of: str = "") -> None:
    """Environment, arguments and mappings of every other process.

    ``memory_of``: also writable memory of those whose arguments have this text.
    """
    own = str(os.getpid())
    for pid in [name for name in os.listdir("/proc") if name.isdigit() and name != own]:
        if search.over():
            return
        arguments = _file_of_proc(search, f"/proc/{pid}/cmdline")
        _file_of_proc(search, f"/proc/{pid}/environ")
        mappings = _file_of_proc(search, f"/proc/{pid}/maps")
        if memory_of and memory_of.encode() in arguments:
            _memory(search, pid, mappings)


def _file_of_proc(search: Search, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_FILE_BYTES)
    except OSError:
        return b""
    search.look(path, data)
    return data


def _memory(search: Search, pid: str, mappings: bytes) -> None:
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except OSError:
        return
    try:
        for line in mappings.decode(errors="replace").splitlines():
            area, mode, *_ = line.split()
            start, end = (int(part, 16) for part in area.split("-"))
            if "rw" in mode and end - start <= _MAX_MAPPING_BYTES:
                _pieces(search, memory, pid, start, end)
            if search.over():
                return
    finally:
        os.close(memory)


def _pieces(search: Search, memory: int, pid: str, start: int, end: int) -> None:
    for address in range(start, end, _PIECE_BYTES):
        if search.over():
            return
        try:
            search.look(
                f"memory of {pid}", os.pread(memory, min(_PIECE_BYTES, end - address), address)
            )
        except (OSError, OverflowError):
            return
