"""Makes Triton's interpreter usable for code written for a GPU, and faster.

* autotuning measures, which needs a GPU: the first configuration that survives pruning is taken,
  and a note says so;
* a stand-in driver answers the questions that code asks at import (current target, device, number
  of multiprocessors);
* programs of a launch run in another order each time (`kernelgym.trace.programs`);
* integers overflow silently, as they do on a GPU unless debugging is on;
* scalar arguments work under Triton 3.6 with a numpy that is newer;
* a kernel's call of another (``tl.max`` is one) does not patch Triton's language once more: that
  takes most of the time of small kernels, and changes nothing after the first call.

`kernelgym.trace.reductions` makes reductions with own functions bearable,
`kernelgym.trace.libdevice` adds the device library, `kernelgym.trace.bfloat16` arithmetic on
bfloat16.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from kernelgym.trace import bfloat16, libdevice, programs, reductions, standin
from kernelgym.trace.recorder import Recorder


def adapt(recorder: Recorder) -> None:
    """Apply everything above to the Triton of this process."""
    cut_autotuning(recorder)
    standin.activate()
    libdevice.install(recorder)
    bfloat16.install()
    reductions.install()
    programs.shuffle(recorder)
    let_integers_overflow()
    take_scalars()
    patch_once()


def cut_autotuning(recorder: Recorder) -> None:
    """Let the autotuner choose its first configuration instead of measuring all."""
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(self.configs) > 1:
            text = f"autotune cut to 1 of {len(self.configs)} configurations"
            recorder.note(f"{text} ({self.base_fn.__name__})", text)
        return original(self, *args, **kwargs)

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        return [1.0, 1.0, 1.0]  # all alike: `min` takes the first

    Autotuner.run = run
    Autotuner._bench = bench


def let_integers_overflow() -> None:
    """Leave out the overflow checks that a GPU runs only when debugging."""
    from triton.runtime.interpreter import interpreter_builder

    options = interpreter_builder.options
    interpreter_builder.options = dataclasses.replace(options, sanitize_overflow=False)


def take_scalars() -> None:
    """Mend what Triton 3.6 does to scalars: boolean arguments, and integers under numpy 2.4."""
    import triton.language as tl
    from triton.runtime import interpreter

    convert, patch = interpreter._implicit_cvt, interpreter._patch_lang_tensor

    def implicit_cvt(argument: Any) -> Any:
        if not isinstance(argument, bool):
            return convert(argument)
        handle = interpreter.TensorHandle(np.array([argument], dtype=np.bool_), tl.int1)
        return tl.tensor(handle, tl.int1)

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._implicit_cvt, interpreter._patch_lang_tensor = implicit_cvt, patch_lang_tensor


def patch_once() -> None:
    """Within one launch, patch the language for each set of modules once, not for each call."""
    from triton.runtime import interpreter

    kind = interpreter.InterpretedFunction
    run_original, call_original = kind.run, kind.__call__
    patched: set[frozenset[int]] = set()

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        patched.clear()
        return run_original(self, *args, **kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        modules = _language_modules(self.fn)
        if modules not in patched:
            patched.add(modules)
            return call_original(self, *args, **kwargs)
        try:
            return self.rewrite()(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    kind.run, kind.__call__ = run, call


@functools.cache
def _language_modules(function: Any) -> frozenset[int]:
    """Which modules Triton would patch to interpret ``function``."""
    import triton.language as tl

    wanted = (id(tl), id(tl.core))
    return frozenset(id(value) for value in function.__globals__.values() if id(value) in wanted)
