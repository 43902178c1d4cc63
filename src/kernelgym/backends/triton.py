"""Backend ``triton``: kernels written with ``@triton.jit``.

With a GPU they are compiled, without one Triton's interpreter runs them on the CPU. Imports Triton
only inside `TritonBackend.prepare`, that is in the candidate's process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelgym.backends.base import Backend

if TYPE_CHECKING:
    from kernelgym.trace.recorder import Recorder


class TritonBackend(Backend):
    """Triton kernels, recognised by the code object of the function that was launched."""

    name = "triton"
    summary = "kernels written with @triton.jit"
    can_turn_off = True
    cross_compiles = True

    def prepare(self, recorder: Recorder, *, interpret: bool) -> None:
        """Hook Triton's launch paths; without a GPU also make its interpreter usable."""
        from kernelgym.trace import interpreter, launches

        if interpret:
            launches.hook_interpreter(recorder)
            interpreter.adapt(recorder)
        else:
            launches.hook_compiled(recorder)


BACKEND = TritonBackend()
