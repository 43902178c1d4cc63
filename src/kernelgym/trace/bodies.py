"""What a kernel's body refers to, and whether it waits: by bytecode, before it is interpreted.

Not covered: what a body reaches by other ways than names.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

from kernelgym.trace.ownership import OwnCode


def python_function(kernel: object) -> Any:
    """The function below any stack of autotuner, heuristics and jit wrappers."""
    while not inspect.isfunction(kernel) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def calls_python(own: OwnCode, kernel: object) -> str:
    """Name of a plain function of the candidate's that a kernel refers to, directly or through the
    kernels that it calls; empty when there is none.

    The compiler refuses it wherever it stands in a kernel, the interpreter just calls it. Where the
    compiler sees another function under the name than the interpreter, nobody else would notice.
    """
    for function in _reached(kernel):
        for value in _named(function):
            if inspect.isfunction(value) and own.has(value.__code__):
                return value.__name__
    return ""


def waits(kernel: object) -> bool:
    """Whether a kernel, or one that it calls, has a ``while`` loop: it may wait for others."""
    return any(_has_while(function.__code__) for function in _reached(kernel))


def _reached(kernel: object) -> Iterator[Any]:
    """The functions of a kernel and of those that it calls."""
    pending, seen = [kernel], set()
    while pending:
        function = python_function(pending.pop())
        if not inspect.isfunction(function) or function in seen:
            continue
        seen.add(function)
        yield function
        pending += [value for value in _named(function) if hasattr(value, "fn")]


def _named(function: Any) -> Iterator[object]:
    """What a function's code names outside itself."""
    enclosing = inspect.getclosurevars(function).nonlocals
    for opname, name in _loads(function.__code__):
        place = function.__globals__ if opname == "LOAD_GLOBAL" else enclosing
        if name in place:
            yield place[name]


@functools.lru_cache(maxsize=10_000)
def _loads(code: CodeType) -> tuple[tuple[str, str], ...]:
    steps = dis.get_instructions(code)
    found = {(s.opname, s.argval): None for s in steps if s.opname in ("LOAD_GLOBAL", "LOAD_DEREF")}
    return tuple(found)


@functools.lru_cache(maxsize=10_000)
def _has_while(code: CodeType) -> bool:
    """Jumps back that go to no ``for``."""
    steps = list(dis.get_instructions(code))
    at = {step.offset: place for place, step in enumerate(steps)}
    for step in steps:
        if "JUMP_BACKWARD" in step.opname:
            place = at[step.argval]
            while steps[place].opname == "EXTENDED_ARG":
                place += 1
            if steps[place].opname != "FOR_ITER":
                return True
    return False
