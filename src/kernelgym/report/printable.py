"""Text from candidates made safe for a terminal.

Kernel names, exception messages and source lines are the candidate's to choose: escape sequences
and direction marks in them could repaint a verdict. Everything that is not printable is shown as an
escape.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with every unprintable character but a newline escaped; tabs become spaces."""
    return "".join(
        char if char.isprintable() or char == "\n" else _escape(char) for char in text.expandtabs(4)
    )


def one_line(text: str, limit: int = 160) -> str:
    """The text as one printable line, cut with an ellipsis."""
    line = " ".join(printable(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def gist(text: str, limit: int = 160) -> str:
    """First and last line of a message: compilers put the place first and the reason last."""
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(text if len(lines) < 3 else f"{lines[0]} … {lines[-1]}", limit)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")
