"""Hooks on every way by which Triton starts a kernel.

Interpreter: `InterpretedFunction.run`. Compiled: `JITFunction.run` (also reached from autotuner
and heuristics) and ``CompiledKernel[grid](...)``. The grid is caught where Triton evaluates it, so
a launch is recorded just before it starts, and one that fails earlier is not recorded. Works on
Triton 3.6 to 3.9; installed before the candidate is imported.

Not covered: kernels started through ctypes, CUDA graphs replayed later (device records see those).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from kernelgym.sandbox.evidence import Event
from kernelgym.trace import ablation, bodies
from kernelgym.trace.recorder import Recorder
from kernelgym.trace.signatures import describe

Grid = Callable[[Any], tuple[int, ...]]


def _caught(grid: Any, started: Callable[[tuple[int, ...]], bool]) -> Grid:
    """A grid function that reports what it evaluates to; an empty one where it shall not run."""

    def evaluate(arguments: Any) -> tuple[int, ...]:
        value = tuple(grid(arguments) if callable(grid) else grid)
        return value if started(value) else _nothing(value)

    return evaluate


def _nothing(grid: tuple[int, ...]) -> tuple[int, ...]:
    """A grid without a block: Triton goes through every step of the launch but the last."""
    return (0, *grid[1:])


def hook_interpreter(recorder: Recorder) -> None:
    """Record what Triton's interpreter runs, with the types of the arguments."""
    from triton.runtime.interpreter import InterpretedFunction

    original = InterpretedFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)

        def started(value: tuple[int, ...]) -> bool:
            runs = recorder.launch(self.fn, value, _num_warps(kwargs))
            if recorder.own.has(getattr(self.fn, "__code__", None)):
                with contextlib.suppress(Exception):  # a report is never a reason to fail
                    recorder.keep_signature(describe(self.fn, self.kwargs, args, kwargs))
            if name := bodies.calls_python(recorder.own, self.fn):
                raise RuntimeError(
                    f"Unsupported function referenced: {name}, a plain Python function; Triton's "
                    "compiler refuses this kernel, so put @triton.jit on what it calls"
                )
            recorder.in_order = bodies.waits(self.fn)
            recorder.enter_body()
            return runs

        with (
            ablation.watched(recorder, self.fn, args, kwargs),
            failing(recorder, self.fn),
            recorder.interpreting(self.fn),
        ):
            return original(self, *args, grid=_caught(grid, started), warmup=warmup, **kwargs)

    InterpretedFunction.run = run


def hook_compiled(recorder: Recorder) -> None:
    """Record what is launched on a GPU."""
    from triton.compiler.compiler import ASTSource, CompiledKernel
    from triton.runtime.jit import JITFunction

    recorder.by_symbol = True
    run_original, item_original = JITFunction.run, CompiledKernel.__getitem__

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return run_original(self, *args, grid=grid, warmup=warmup, **kwargs)

        def started(value: tuple[int, ...]) -> bool:
            return recorder.launch(self.fn, value, _num_warps(kwargs))

        with ablation.watched(recorder, self.fn, args, kwargs), failing(recorder, self.fn):
            kernel = run_original(self, *args, grid=_caught(grid, started), warmup=warmup, **kwargs)
        recorder.compiled(self.fn, kernel)
        return kernel

    def get_item(self: Any, grid: Any) -> Any:
        runner = item_original(self, grid)

        def launch(*args: Any, **kwargs: Any) -> Any:
            if not isinstance(self.src, ASTSource):
                return runner(*args, **kwargs)
            warps = int(getattr(self.metadata, "num_warps", 0))
            if not recorder.launch(self.src.fn.fn, tuple(grid), warps):
                return item_original(self, _nothing(tuple(grid)))(*args, **kwargs)
            with ablation.watched(recorder, self.src.fn.fn, args, kwargs):
                value = runner(*args, **kwargs)
            recorder.compiled(self.src.fn.fn, self)
            return value

        return launch

    JITFunction.run = run
    CompiledKernel.__getitem__ = get_item


@contextlib.contextmanager
def failing(recorder: Recorder, function: object) -> Iterator[None]:
    """A launch that raises has not run: code that falls back to torch then gets no credit for it.

    Only what is raised at once is seen; a fault on the device comes later, and ends the process.
    """
    launched = recorder.launched
    try:
        yield
    except BaseException:
        if recorder.launched > launched:
            recorder.observed(Event.FAILED, function)
        raise


def _num_warps(kwargs: dict[str, Any]) -> int:
    value = kwargs.get("num_warps", 4)
    return value if isinstance(value, int) else 0
