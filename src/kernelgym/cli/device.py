"""Which device a command means, found without touching a GPU in this process."""

from __future__ import annotations

from pathlib import Path

from kernelgym.errors import UsageError


def gpu_indices() -> list[int]:
    """Numbers of the NVIDIA GPUs whose device files exist."""
    return sorted(
        int(path.name.removeprefix("nvidia"))
        for path in Path("/dev").glob("nvidia[0-9]*")
        if path.name.removeprefix("nvidia").isdecimal()
    )


def resolve_device(name: str) -> str:
    """``cpu`` or ``cuda:N`` for auto, cpu, cuda or cuda:N; raises `UsageError` for another."""
    gpus = gpu_indices()
    if name == "auto":
        return f"cuda:{gpus[0]}" if gpus else "cpu"
    if name == "cpu":
        return "cpu"
    kind, _, number = name.partition(":")
    if kind != "cuda" or not (number or "0").isdecimal():
        raise UsageError(
            f"unknown device {name!r}: auto, cpu or cuda:N",
            hint="kernelgym eval ... --device auto",
        )
    index = int(number or "0")
    if index not in gpus:
        there = f"there are {', '.join(f'cuda:{gpu}' for gpu in gpus)}" if gpus else "there is none"
        raise UsageError(f"no GPU {index} on this machine: {there}", hint="kernelgym doctor")
    return f"cuda:{index}"
