"""Makes Triton's interpreter usable for code written for a GPU.

* autotuning measures, which needs a GPU: the first configuration that survives pruning is taken,
  and
  a note says so;
* a stand-in driver answers the questions that code asks at import (current target, device, number
  of
  multiprocessors).

`kernelgym.trace.libdevice` adds the device library.
"""

from __future__ import annotations

from typing import Any

from kernelgym.trace import libdevice, standin
from kernelgym.trace.recorder import Recorder


def adapt(recorder: Recorder) -> None:
    """Apply everything above to the Triton of this process."""
    cut_autotuning(recorder)
    standin.activate()
    libdevice.install()


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
