"""Backend ``torch``: plain PyTorch, no kernel of its own required.

For calibration: the reference as its own candidate must come out correct at a speedup of one.
"""

from __future__ import annotations

from kernelgym.backends.base import Backend


class TorchBackend(Backend):
    """Anything that torch runs."""

    name = "torch"
    summary = "plain PyTorch, no own kernel required"
    needs_own_kernel = False


BACKEND = TorchBackend()
