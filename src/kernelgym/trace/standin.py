"""A Triton driver for machines without a GPU: it answers questions, it cannot launch.

Code written for a GPU asks the driver at import for its device, target and properties. The answers
are those of an H100 (sm_90), the default target of the cross-compile report.
"""

from __future__ import annotations

from typing import Any

CAPABILITY = 90
NAME = "stand-in for sm_90 (no GPU)"
PROPERTIES: dict[str, int] = {
    "max_shared_mem": 232_448,
    "max_num_regs": 65_536,
    "multiprocessor_count": 132,
    "warpSize": 32,
    "sm_clock_rate": 1_980_000,
    "mem_clock_rate": 2_619_000,
    "mem_bus_width": 5120,
}


class _Utils:
    @staticmethod
    def get_device_properties(device: int) -> dict[str, int]:
        return dict(PROPERTIES)


class StandInDriver:
    """The part of Triton's driver interface that needs no GPU."""

    utils = _Utils()

    def get_current_target(self) -> Any:
        """Target that kernels would be compiled for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", CAPABILITY, 32)

    def get_active_torch_device(self) -> Any:
        """Device of new tensors; redirected to the CPU like every ``cuda`` device."""
        import torch

        return torch.device("cuda", 0)

    def get_current_device(self) -> int:
        """Index of the device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_current_stream(self, device: int | None = None) -> int:
        """Handle of the default stream."""
        return 0

    def get_device_interface(self) -> Any:
        """Torch's module for the device."""
        import torch

        return torch.cuda

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Compute capability."""
        return divmod(CAPABILITY, 10)

    def get_empty_cache_for_benchmark(self) -> Any:
        """Buffer that a benchmark would flush the L2 cache with."""
        import torch

        return torch.empty(256, dtype=torch.int, device="cpu")

    def clear_cache(self, cache: Any) -> None:
        """Nothing to flush."""

    def get_benchmarker(self) -> Any:
        """Measure nothing: call once and report equal times."""

        def measure(call: Any, **_: Any) -> list[float]:
            call()
            return [1.0, 1.0, 1.0]

        return measure


def activate() -> None:
    """Make it Triton's active driver."""
    from triton.runtime.driver import driver

    driver.set_active(StandInDriver())
