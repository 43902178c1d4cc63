"""A GPU's device nodes that open no more: no second context, no second process with one.

Whoever makes a context opens /dev/nvidia0 (16 times, with driver 580); whoever has one never does
again, not for memory, modules, streams, graphs, libraries or pinned memory (measured on an H200,
``benchmarks/gpu_second_context.py``). So once the harness has its context and its profiler, and
before a line of the candidate is there, the keeper makes the mounts of the nodes ``nodev``: what is
open stays open, what is not opens no more, neither by path nor through /proc/self/fd.

The harness asks (`seal`), the keeper does it (`attend`) and then gives up the right to. Not
covered: levels without a mount namespace, and contexts that share the first one's descriptors
(green contexts).
"""

from __future__ import annotations

import glob
import socket

from kernelgym.sandbox import linux

NODES = "/dev/nvidia[0-9]*"
"""Of the GPUs themselves; nvidiactl and nvidia-uvm are needed later, and make no context."""
NOT_HERE = "this jail has no device nodes of its own"
_ASK, _DONE = b"s", b"d"
_LIMIT_S = 10.0
_ENDS: list[socket.socket] = []


def pair() -> tuple[socket.socket, socket.socket]:
    """The keeper's end and the guest's."""
    return socket.socketpair()


def hold(end: socket.socket) -> None:
    """In the guest: this is the way to the keeper."""
    _ENDS[:] = [end]


def seal() -> str:
    """Ask for it; empty when it is done, or why not. The second time nothing happens."""
    if not _ENDS:
        return NOT_HERE
    with _ENDS.pop() as end:
        try:
            end.settimeout(_LIMIT_S)
            end.sendall(_ASK)
            answer = end.recv(500)
        except OSError as error:
            return f"the keeper did not answer: {error}"
    return "" if answer == _DONE else answer.decode(errors="replace") or "the keeper went away"


def attend(end: socket.socket) -> None:
    """In the keeper: wait until the guest asks or is gone; do it, say so."""
    with end:
        try:
            if end.recv(1) == _ASK:
                end.sendall(_close())
        except OSError:
            return  # the guest is gone


def _close() -> bytes:
    found = glob.glob(NODES)
    try:
        for path in found:
            linux.mount_setattr(path, linux.MOUNT_ATTR_NODEV, recursive=False)
    except OSError as error:
        return str(error).encode()[:500]
    return _DONE if found else NOT_HERE.encode()
