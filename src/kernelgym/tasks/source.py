"""Reading a source file that a user named, with an error that says what is wrong with it.

Whatever the path leads to (nothing, a directory, a device, a binary, something huge), the answer is
text or one `UsageError`. The file is never imported here.
"""

from __future__ import annotations

import difflib
import os
import stat
from pathlib import Path

from kernelgym.errors import UsageError
from kernelgym.schema import MAX_SOURCE_BYTES


def read_source(path: Path, what: str) -> str:
    """Text of a UTF-8 source file; ``what`` ("candidate", "reference") goes into the errors."""
    data = _read_bytes(path, what)
    if b"\0" in data:
        raise UsageError(
            f"the {what} {path} is a binary file, not Python source",
            hint=f"file {path}",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the {what} {path} is not UTF-8 text (byte {error.start} is {data[error.start]:#04x})",
            hint=f"iconv -t utf-8 {path} -o {path.stem}-utf8.py",
        ) from error


def _read_bytes(path: Path, what: str) -> bytes:
    try:
        # O_NONBLOCK: opening a FIFO nobody writes to would wait for ever.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _cannot_open(path, what, error) from error
    try:
        return _read_regular(fd, path, what)
    finally:
        os.close(fd)


def _read_regular(fd: int, path: Path, what: str) -> bytes:
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"the {what} {path} is a directory, not a Python file", hint=f"ls {path}")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"the {what} {path} is not a regular file", hint=f"ls -l {path}")
    with open(fd, "rb", closefd=False) as file:
        data = file.read(MAX_SOURCE_BYTES + 1)
    if len(data) > MAX_SOURCE_BYTES:
        size = max(status.st_size, len(data))
        raise UsageError(
            f"the {what} {path} has {size:,} bytes; at most {MAX_SOURCE_BYTES:,} are accepted",
            hint=f"wc -c {path}",
        )
    return data


def _cannot_open(path: Path, what: str, error: OSError) -> UsageError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        near = _near(path)
        return UsageError(
            f"no such file: the {what} {path}" + (f"; did you mean {near}?" if near else ""),
            hint=f"ls {path.parent}",
        )
    reason = error.strerror or type(error).__name__
    return UsageError(f"cannot read the {what} {path}: {reason}", hint=f"ls -l {path}")


def _near(path: Path) -> Path | None:
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return None
    matches = difflib.get_close_matches(path.name, names, n=1)
    return path.parent / matches[0] if matches else None
