"""Gives the GPU back while a kernel is compiled and loaded: a wrapper on `JITFunction._do_compile`.

The judge holds the gate on the candidate's behalf. Around every compilation (first call, new
constexpr, each autotune configuration, warm-up, an error) this sends COMPILING, lets Triton work,
then sends COMPILED and waits for GO before anything may touch the GPU again. Installed for
``cuda`` only.

Not covered: a direct call of ``triton.compile``, Inductor and C++ extensions (the gate stays held
and the judge's limit bounds it).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from kernelgym.sandbox.frames import Channel, ChannelViolation, Kind
from kernelgym.trace.recorder import Recorder


def install(release: Callable[[], None], acquire: Callable[[], None]) -> None:
    """Call ``release`` before and ``acquire`` after every compilation, however it ends."""
    from triton.runtime.jit import JITFunction

    original = JITFunction._do_compile

    def compile_outside(self: Any, *args: Any, **kwargs: Any) -> Any:
        release()
        try:
            kernel = original(self, *args, **kwargs)
            load(kernel)
            return kernel
        finally:
            acquire()

    JITFunction._do_compile = compile_outside


def load(kernel: Any) -> None:
    """Build the launcher of a compiled kernel and load it now, not at its first launch.

    Triton 3.6 runs a C compiler for that, and the driver waits for whoever makes contexts. What
    fails here fails again at the launch, which is told.
    """
    initialise = getattr(kernel, "_init_handles", None)
    if initialise is not None:
        with contextlib.suppress(Exception):
            initialise()


def install_over(channel: Channel, recorder: Recorder) -> None:
    """The hook of a candidate's process: speaks to the judge over the channel."""

    def release() -> None:
        channel.send(Kind.COMPILING, recorder.call)

    def acquire() -> None:
        channel.send(Kind.COMPILED, recorder.call)
        if channel.receive(limit=0).kind is not Kind.GO:
            raise ChannelViolation("expected GO")

    install(release, acquire)
