"""Calls of the CUDA driver through cuda-bindings, each one checked.

The package is imported on first use, so that a machine without a GPU needs neither it nor a driver.
`Driver.call` takes the name of a function as NVIDIA documents it and returns what comes after the
status: nothing, one value, or a tuple.

Not covered: errors that a kernel causes later. They come out of a later call, and stay.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from kernelgym.errors import ServiceError, UsageError

_OUT_OF_MEMORY = 2


class CudaError(ServiceError):
    """A call of the driver failed."""

    def __init__(self, function: str, code: int, name: str) -> None:
        super().__init__(f"{function}: {name} ({code})")
        self.function = function
        self.code = code

    @property
    def out_of_memory(self) -> bool:
        """The device has no memory left."""
        return self.code == _OUT_OF_MEMORY


def load_bindings() -> Any:
    """The module ``cuda.bindings.driver``; raises `UsageError` that says how to get it."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise UsageError(
            f"a GPU needs the package cuda-bindings: {error}",
            hint="pip install 'drkernel[gpu]'",
        ) from error


class _Interface:
    """What torch needs to see foreign device memory as a tensor."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


class Driver:
    """The driver's functions and enumerations, and two questions to torch."""

    def __init__(self, api: Any = None) -> None:
        """``api`` stands in for ``cuda.bindings.driver`` in tests."""
        self.api = load_bindings() if api is None else api
        self._functions: dict[str, Any] = {}

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function; raises `CudaError` when its status is not success."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = getattr(self.api, name)
        status, *values = function(*arguments)
        if int(status) != 0:
            raise CudaError(name, int(status), getattr(status, "name", "error"))
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)

    def tensor(self, address: int, size: int) -> torch.Tensor:
        """``size`` bytes of device memory as a flat uint8 tensor; the memory is not owned."""
        flat = torch.as_tensor(_Interface(address, size), device="cuda")
        if flat.data_ptr() != address:
            raise CudaError("torch.as_tensor", 0, "copied the memory instead of wrapping it")
        return flat

    def stream(self) -> int:
        """Handle of torch's current stream."""
        return int(torch.cuda.current_stream().cuda_stream)


_DRIVER: list[Driver] = []


def driver() -> Driver:
    """The driver of this process, made on first use."""
    if not _DRIVER:
        _DRIVER.append(Driver())
    return _DRIVER[0]
