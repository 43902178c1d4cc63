"""Text for people out of exceptions and sources: cut, and without the host's paths."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence

MAX_MESSAGE = 2_000
MAX_TRACEBACK = 8_000
_AROUND = 2
_LIBRARY_PATH = re.compile(r'File "[^"]*/(?:site-packages|python3\.\d+)/')


def cut(text: str, limit: int) -> str:
    """``text``, or its beginning and end when it is longer than ``limit`` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


def excerpt(source: str, line: int | None) -> str:
    """Numbered lines around ``line``, that one marked."""
    lines = source.split("\n")
    if line is None or not 0 < line <= len(lines):
        return ""
    first, last = max(1, line - _AROUND), min(len(lines), line + _AROUND)
    return "\n".join(
        f"{'>' if number == line else ' '} {number:4d} | {lines[number - 1][:200]}"
        for number in range(first, last + 1)
    )


def message_of(error: BaseException) -> str:
    """What an exception says, cut; its class when it says nothing."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - __str__ of the reference's own exception class
        text = ""
    return cut(text or type(error).__name__, MAX_MESSAGE)


def traceback_of(error: BaseException, path: str, shown: str) -> str:
    """Traceback from the first frame in ``path`` on, that file named ``shown``.

    Without such a frame none is shown, since all are our own. A syntax error has its line instead.
    """
    frames: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    start = next((i for i, frame in enumerate(frames) if frame.filename == path), len(frames))
    text = "".join(traceback.format_list(frames[start:]))
    if isinstance(error, SyntaxError):
        text += "".join(traceback.format_exception_only(error)).rstrip()
    else:
        text += f"{type(error).__name__}: {message_of(error)}"
    return cut(_LIBRARY_PATH.sub('File "', text.replace(path, shown)), MAX_TRACEBACK)
