"""What a backend is.

The judge reads the plain attributes. `Backend.prepare` and `Backend.load` run in the candidate's
process, `prepare` before any line of the candidate. Imports no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelgym.sandbox.loader import LoadedSource
    from kernelgym.trace.recorder import Recorder


class Backend:
    """A kernel language; subclass it, set the attributes, override what differs."""

    name: str = ""
    """Name by which submissions ask for it."""
    summary: str = ""
    """One line for people."""
    needs_own_kernel: bool = True
    """A candidate that launches no kernel of its own is a ``hack``."""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """Where candidates can run."""
    can_turn_off: bool = False
    """Its hooks heed `Recorder.launch`: a kernel does not run when that says False. Without this
    the judge cannot ask what becomes of the answers without the candidate's kernels."""
    times_on_cpu: bool = False
    """Its kernels are meant for a CPU, so that their speed there says something. Its hooks tell
    `Recorder.ran` what each took."""
    cross_compiles: bool = False
    """Its kernels can be compiled for a GPU that is not there."""

    def prepare(self, recorder: Recorder, *, interpret: bool) -> None:
        """Install hooks that recognise launches of the candidate's kernels."""

    def load(self, source: bytes, directory: Path, recorder: Recorder) -> LoadedSource:
        """Write the source into ``directory`` and import it; raises whatever it raises."""
        from kernelgym.sandbox.loader import load

        return load(source, directory, recorder.own)
