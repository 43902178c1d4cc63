"""Roles for tests of the zygote: they run in its children."""

from __future__ import annotations

import json
import os
import socket
import sys


def tell(channel_fd: int) -> None:
    """Say what a child finds around itself."""
    with open("/proc/self/environ", "rb") as file:
        block = file.read().decode(errors="replace")
    told = {
        "environ": dict(os.environ),
        "block": block,
        "threads": len(os.listdir("/proc/self/task")),
        "torch": "torch" in sys.modules,
        "triton": "triton" in sys.modules,
        "dynamo": "torch._dynamo" in sys.modules,
        "interpret": os.environ.get("TRITON_INTERPRET"),
        "modules": sorted(name for name in sys.modules if name.startswith("kernelgym.")),
    }
    socket.socket(fileno=channel_fd).sendall(json.dumps(told).encode())


def parallel(channel_fd: int) -> None:
    """Use torch with two threads: hangs if the parent's OpenMP had been started."""
    import torch

    torch.set_num_threads(2)
    total = float((torch.ones(2048, 2048) @ torch.ones(2048, 2048)).sum())
    socket.socket(fileno=channel_fd).sendall(json.dumps(total).encode())


def imports(channel_fd: int) -> None:
    """Import every module of ours that was there before the checkout was hidden."""
    import importlib

    import kernelgym

    package = os.path.dirname(kernelgym.__file__)
    visible = os.listdir(package) if os.path.exists(package) else []
    names = ["kernelgym.judge.process", "kernelgym.sandbox.candidate", "kernelgym.sandbox.compiler"]
    for name in names:
        importlib.import_module(name)
    told = {"visible": visible, "names": names}
    socket.socket(fileno=channel_fd).sendall(json.dumps(told).encode())
