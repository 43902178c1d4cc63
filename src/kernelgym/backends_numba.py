"""Backend ``numba``: kernels for a CPU, compiled by Numba.

Installed through the entry-point group ``kernelgym.backends`` like any backend from outside, and
short enough to be read as the example for one (docs/backends.md). It recognises a kernel when a
compiled function is called from Python: ``@njit`` functions, and universal functions of
``@vectorize`` and ``@guvectorize``. A kernel is the candidate's own by its code object, as in
Triton; one in which torch computes (object mode, a callback) is Python and counts as not run.
Imports Numba only inside `NumbaBackend.prepare`, that is in the candidate's process.

Not covered: compiled functions called by other compiled functions (they are part of the kernel that
calls them); Python in object mode that asks another library than torch; several threads:
``parallel=True`` works, with as many as torch has, one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernelgym.backends.base import Backend

if TYPE_CHECKING:
    from kernelgym.trace.recorder import Recorder


class NumbaBackend(Backend):
    """Numba's compiled functions, recognised by the function they were made from."""

    name = "numba"
    summary = "CPU kernels written with Numba"
    devices = ("cpu",)
    can_turn_off = True
    times_on_cpu = True

    def prepare(self, recorder: Recorder, *, interpret: bool) -> None:
        """Record every call of a compiled function from Python."""
        from numba.core.dispatcher import Dispatcher
        from numba.np.ufunc.dufunc import DUFunc
        from numba.np.ufunc.gufunc import GUFunc

        _hook(Dispatcher, recorder, lambda made: made.py_func)
        _hook(DUFunc, recorder, lambda made: made._dispatcher.py_func)
        _hook(GUFunc, recorder, lambda made: made.gufunc_builder.py_func)


def _hook(kind: Any, recorder: Recorder, python_function: Callable[[Any], Any]) -> None:
    from kernelgym.trace.census import Body

    original = kind.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        entered = time.process_time_ns()
        if not recorder.launch(python_function(self), _grid(args), 0):
            return None
        with recorder.interpreting(python_function(self)), Body(recorder):
            recorder.enter_body()
            began = time.process_time_ns()
            value = original(self, *args, **kwargs)
            ended = time.process_time_ns()
            recorder.ran(python_function(self), ended - began)
        recorder.aside_ns += time.process_time_ns() - ended + began - entered
        return value

    kind.__call__ = call


def _grid(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of the first array, for people."""
    shapes = (getattr(value, "shape", None) for value in args)
    return next((tuple(shape)[:3] for shape in shapes if shape), (1,))


BACKEND = NumbaBackend()
