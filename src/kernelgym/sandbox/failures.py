"""An exception of the candidate as a `Failed` body: what went wrong, in words, cut to size.

Nothing about the exception is trusted: its text may be huge, may raise, may not be text. Frames of
the harness are left out and directories of the host are cut off every path. Not covered: an
exception whose ``__str__`` never returns (the judge's deadline ends that).
"""

from __future__ import annotations

import linecache
import re
import site
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from kernelgym.sandbox.loader import FILE
from kernelgym.sandbox.messages import Failed

_MAX_READ = 40_000
_MAX_MESSAGE = 4_000
_MAX_TRACEBACK = 12_000
_MAX_FRAMES = 24
_MAX_CHAIN = 4
_HARNESS = str(Path(__file__).resolve().parents[1])
_COMPILE_ERRORS = (
    "triton.compiler.errors.",
    "triton.runtime.errors.PTXASError",
    "triton.runtime.errors.OutOfResources",
)
_COMPILER = "triton/compiler/compiler.py"
_NEEDS_GPU = re.compile(
    r"not supported in interpreter mode|dummy base class CUDAGraph|not compiled with CUDA enabled"
    r"|Found no NVIDIA driver"
)
_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|cannot allocate memory"
    r"|bad_alloc|unable to allocate",
    re.IGNORECASE,
)


def describe(error: BaseException, source: Path | None = None) -> Failed:
    """What the judge is told about ``error``; ``source`` is the candidate's file, once it
    exists."""
    try:
        chain = list(_chain(error))
        text = _text(error)
        return Failed(
            type=_cut(_name(error), 200),
            message=_cut(_scrub(text, source), _MAX_MESSAGE),
            traceback=_cut(_scrub(_traceback(chain, source), source), _MAX_TRACEBACK),
            line=_line(chain, source),
            compiling=any(_is_compiling(link) for link in chain),
            out_of_memory=any(_is_out_of_memory(link) for link in chain),
            unsupported=any(_NEEDS_GPU.search(_text(link)) is not None for link in chain),
        )
    except BaseException:  # noqa: BLE001 - the exception's own code runs here, may raise anything
        return Failed(type="Exception", message="an exception that cannot be described")


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else _full_name(kind)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as inner:  # noqa: BLE001 - a hostile or broken __str__
        return f"<its text could not be read: {type(inner).__name__}>"
    if type(text) is not str:
        return "<its text is not a string>"
    return text if len(text) <= _MAX_READ else _cut(text, _MAX_READ)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what caused it, outermost first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < _MAX_CHAIN:
        seen.add(id(link))
        yield link
        hidden = link.__suppress_context__ and link.__cause__ is None
        link = link.__cause__ or (None if hidden else link.__context__)


def _frames(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    """File, line and function of each frame; those of the harness and its torch modes left out."""
    frames: list[tuple[str, int, str]] = []
    after_harness = False
    while trace is not None:
        code = trace.tb_frame.f_code
        is_harness = code.co_filename.startswith(_HARNESS)
        if not is_harness and not (after_harness and code.co_filename.endswith("torch/_ops.py")):
            frames.append((code.co_filename, trace.tb_lineno or 0, code.co_name))
        after_harness = is_harness
        trace = trace.tb_next
    return frames


def _shown(link: BaseException, source: Path | None) -> list[tuple[str, int, str]]:
    """Frames worth reading: from the candidate's first one on, cut in the middle."""
    frames = _frames(link.__traceback__)
    own = [index for index, (file, _, _) in enumerate(frames) if file == str(source)]
    frames = frames[own[0] :] if own else frames
    if len(frames) > _MAX_FRAMES:
        half, left_out = _MAX_FRAMES // 2, len(frames) - _MAX_FRAMES
        frames = [*frames[:half], (f"... {left_out} frames left out ...", 0, ""), *frames[-half:]]
    return frames


def _traceback(chain: list[BaseException], source: Path | None) -> str:
    """Like Python's: the cause first, then what it led to."""
    parts = []
    for link in reversed(chain):
        lines = []
        for file, number, name in _shown(link, source):
            if not number:
                lines.append(f"  {file}")
                continue
            lines.append(f'  File "{file}", line {number}, in {name}')
            code = linecache.getline(file, number).strip()
            if code:
                lines.append(f"    {code[:200]}")
        lines.append(f"{_name(link)}: {_cut(_text(link), 1_000)}")
        parts.append("\n".join(lines))
    return "\n\nwhich led to\n\n".join(parts)


def _line(chain: list[BaseException], source: Path | None) -> int | None:
    """Line of the candidate's file: a compiler's complaint, else where it was executing."""
    for link in chain:
        if isinstance(link, SyntaxError) and link.filename == str(source):
            return link.lineno
    for link in reversed(chain):  # the innermost function of the candidate's that was refused
        number = _compiler_line(link, source)
        if number is not None:
            return number
    for link in reversed(chain):
        own = [number for file, number, _ in _frames(link.__traceback__) if file == str(source)]
        if own:
            return own[-1]
    return None


def _compiler_line(error: BaseException, source: Path | None) -> int | None:
    """Line in the file of a Triton compilation error, which counts from the function's ``def``."""
    text, number = getattr(error, "src", None), getattr(getattr(error, "node", None), "lineno", 0)
    if source is None or not isinstance(text, str) or not isinstance(number, int):
        return None
    wanted = [line.strip() for line in text.strip().splitlines()]
    lines = [line.strip() for line in linecache.getlines(str(source))]
    for start in range(len(lines) - len(wanted) + 1):
        if lines[start : start + len(wanted)] == wanted:
            return start + number
    return None


def excerpt(text: str, line: int, around: int = 2) -> str:
    """Numbered source lines around ``line``, which is marked."""
    lines = text.splitlines()
    first, last = max(1, line - around), min(len(lines), line + around)
    return "\n".join(
        f"{'>' if number == line else ' '} {number:4d} | {lines[number - 1][:160]}"
        for number in range(first, last + 1)
    )


def _is_compiling(error: BaseException) -> bool:
    if _name(error).startswith(_COMPILE_ERRORS):
        return True
    frames = _frames(error.__traceback__)
    return any(file.endswith(_COMPILER) and name == "compile" for file, _, name in frames)


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and bool(_OUT_OF_MEMORY.search(_text(error)[:2_000]))


def _prefixes(source: Path | None) -> list[str]:
    places = [*site.getsitepackages(), site.getusersitepackages(), *sys.path]
    places += [f"{sys.base_prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}"]
    places += [sys.prefix, sys.base_prefix, str(Path(_HARNESS).parent)]
    if source is not None:
        places = [str(source.parent), *places, str(source.parent.parent)]
    return sorted({place.rstrip("/") for place in places if len(place) > 4}, key=len, reverse=True)


def _scrub(text: str, source: Path | None) -> str:
    for prefix in _prefixes(source):
        text = text.replace(prefix + "/", "").replace(prefix, "")
    return text


def _cut(text: str, limit: int) -> str:
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3 - 40
    return f"{text[:head]}\n... {len(text) - head - tail} characters left out ...\n{text[-tail:]}"


__all__ = ["FILE", "describe", "excerpt"]
