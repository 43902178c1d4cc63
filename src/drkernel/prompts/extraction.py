"""The candidate's source in an answer.

The rules, in this order:

1. Reasoning that stands in the answer itself (``<think> ... </think>``) is not looked at.
2. Of the complete fenced blocks that can hold Python, the last one that defines the entry point
   counts; if none defines it, the last one.
3. Without a complete block: what stands between ``<code>``, ``<kernel>`` or ``<answer>`` tags.
4. A block or tag that was opened and never closed is ``truncated``, and nothing of it is used.
5. Everything else is ``none``.

Source that Python cannot parse is handed on as ``unparsable``: the judge's error names the line.
Not covered: source spread over several blocks, and diffs against an earlier answer.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

from drkernel.types import Extraction, Finish
from kernelgym.schema import MAX_SOURCE_BYTES

_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)$")
_MARKERS = ("code", "kernel", "answer")
_CODE_LANGUAGES = frozenset({"", "python", "python3", "py", "triton", "cuda", "numba"})
_THOUGHT_END = "</think>"


@dataclass(frozen=True)
class _Block:
    text: str
    closed: bool


def extract(text: str, finish: Finish = "stop", *, entry_point: str = "ModelNew") -> Extraction:
    """Find the candidate in ``text``; ``finish`` says how the answer ended.

    >>> extract("Plan: fuse.\\n```python\\nclass ModelNew: ...\\n```").code
    'class ModelNew: ...\\n'
    >>> extract("```python\\nclass ModelNew: ...", "length").how
    'truncated'
    """
    answer = _answer(text.replace("\r\n", "\n").encode("utf-8", "replace").decode())
    if answer is None:
        return Extraction(code=None, how="truncated", note="the answer ended inside the reasoning")
    blocks = _fenced_blocks(answer)
    complete = [block.text for block in blocks if block.closed and block.text.strip()]
    if complete:
        return _found(_chosen(complete, entry_point), "fence")
    marked = _between_markers(answer)
    if marked is not None and marked.closed and marked.text.strip():
        return _found(marked.text.strip("\n") + "\n", "marker")
    if (marked is not None and not marked.closed) or any(not block.closed for block in blocks):
        return Extraction(code=None, how="truncated", note=_why_cut(finish))
    note = "the code block is empty" if blocks or marked else "the answer has no fenced code block"
    if finish == "length":
        note += "; it was cut off at the longest length allowed"
    return Extraction(code=None, how="none", note=note)


def _why_cut(finish: Finish) -> str:
    if finish == "length":
        return "the answer was cut off at the longest length allowed, inside the code block"
    return "the code block was opened and never closed"


def _answer(text: str) -> str | None:
    """What follows the reasoning; None when the reasoning never ended."""
    if _THOUGHT_END in text:
        return text.rpartition(_THOUGHT_END)[2]
    return None if text.lstrip().startswith("<think>") else text


def _fenced_blocks(text: str) -> list[_Block]:
    """Fenced blocks that can hold Python, in order; an unclosed one is the last."""
    blocks: list[_Block] = []
    fence, info, lines = "", "", list[str]()
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if not fence:
            if mark and not (mark["fence"][0] == "`" and "`" in mark["info"]):
                fence, info, lines = mark["fence"], mark["info"].strip().lower(), []
        elif mark and mark["fence"].startswith(fence) and not mark["info"].strip():
            blocks += _if_python(info, lines, closed=True)
            fence = ""
        else:
            lines.append(line)
    if fence:
        blocks += _if_python(info, lines, closed=False)
    return blocks


def _if_python(info: str, lines: list[str], *, closed: bool) -> list[_Block]:
    language = info.split()[0] if info else ""
    text = "\n".join(lines) + "\n" if lines else ""
    return [_Block(text, closed)] if language.strip("{}.") in _CODE_LANGUAGES else []


def _between_markers(text: str) -> _Block | None:
    """The last pair of tags, or a last tag that was never closed."""
    for marker in _MARKERS:
        start = text.rfind(f"<{marker}>")
        if start < 0:
            continue
        inside, closing, _ = text[start + len(marker) + 2 :].partition(f"</{marker}>")
        return _Block(inside, bool(closing))
    return None


def _chosen(complete: list[str], entry_point: str) -> str:
    defines = re.compile(rf"^\s*class\s+{re.escape(entry_point)}\b", re.MULTILINE)
    return next((text for text in reversed(complete) if defines.search(text)), complete[-1])


def _found(code: str, how: str) -> Extraction:
    if len(code) > MAX_SOURCE_BYTES:
        note = f"the code is longer than {MAX_SOURCE_BYTES:,} bytes"
        return Extraction(code=None, how="none", note=note)
    problem = _syntax_problem(code)
    if problem:
        return Extraction(code=code, how="unparsable", note=problem)
    return Extraction.model_validate({"code": code, "how": how})


def _syntax_problem(code: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        return f"the code is not valid Python: {error.msg}{where}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"the code is not valid Python: {error or type(error).__name__}"
    return ""
