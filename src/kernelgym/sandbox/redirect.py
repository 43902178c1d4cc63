"""Runs code written for a GPU on the CPU: ``cuda`` devices mean the CPU, and claim to be ``cuda``.

Three parts. `Redirect`, a torch function mode entered around the candidate's code, rewrites
devices in arguments and in what tensors say about theirs: ``x.is_cuda`` is true, because code
written for a GPU checks it. `install` replaces questions and actions of ``torch.cuda`` by harmless
answers (the device described is the stand-in of `kernelgym.trace.standin`) and runs
``torch.compile`` eagerly, which is noted.

Not covered: CUDA graphs, threads (a mode belongs to one thread), C++ extensions; they fail as they
would on a machine without a GPU. Code outside the mode (the harness) sees true devices.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from kernelgym.trace import standin
from kernelgym.trace.recorder import Recorder

_CUDA = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_TRUE_GENERATOR = torch.Generator


def _is_cuda(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def to_cpu(value: Any) -> Any:
    """The CPU in place of a ``cuda`` device or a device's index; anything else unchanged."""
    return _CPU if _is_cuda(value) or type(value) is int else value


def _lives_here(tensor: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return tensor.device.type == "cpu"


def _device(tensor: torch.Tensor) -> torch.device:
    with torch._C.DisableTorchFunction():
        return _CUDA if tensor.device.type == "cpu" else tensor.device


def _itself(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return tensor


def _named(*args: Any, **kwargs: Any) -> torch.device:
    """A device by name may well say ``cuda``: naming it touches nothing."""
    if len(args) == 1 and type(args[0]) is int:
        return torch.device("cuda", args[0])
    return torch.device(*args, **kwargs)


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


_ANSWERS: dict[Any, Callable[..., Any]] = {
    _getter("is_cuda"): lambda tensor, *_: _lives_here(tensor),
    _getter("is_cpu"): lambda tensor, *_: False,
    _getter("device"): lambda tensor, *_: _device(tensor),
    torch.Tensor.get_device: lambda tensor: 0 if _lives_here(tensor) else -1,
    torch.Tensor.cuda: _itself,
    torch.Tensor.pin_memory: _itself,
    torch.device: lambda *args, **kwargs: _named(*args, **kwargs),
}
"""Functions that are not called at all, and what is answered in their place."""


class Redirect(TorchFunctionMode):
    """Torch function mode: see the module's docstring."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        answer = _ANSWERS.get(func)
        if answer is not None:
            return answer(*args, **kwargs)
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if "device" in kwargs:
            kwargs["device"] = to_cpu(kwargs["device"])
        if func is torch.Tensor.to:
            args = (args[0], *map(to_cpu, args[1:]))
        elif any(_is_cuda(arg) for arg in args):
            args = tuple(_CPU if _is_cuda(arg) else arg for arg in args)
        return func(*args, **kwargs)


class _Stream:
    """The only stream there is."""

    cuda_stream = 0
    device_index = 0
    device = _CUDA

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *args: object) -> None: ...
    def synchronize(self) -> None: ...
    def wait_stream(self, stream: Any) -> None: ...
    def wait_event(self, event: Any) -> None: ...
    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        event = event or _Event()
        event.record()
        return event


class _Event:
    """An event that reads the clock of the CPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._at = 0.0

    def record(self, stream: Any = None) -> None:
        self._at = time.perf_counter()

    def elapsed_time(self, end: _Event) -> float:
        return (end._at - self._at) * 1e3

    def synchronize(self) -> None: ...
    def wait(self, stream: Any = None) -> None: ...
    def query(self) -> bool:
        return True


class _Device(contextlib.AbstractContextManager[None]):
    """``with torch.cuda.device(...)`` and ``torch.cuda.device_of(...)``."""

    def __init__(self, device: Any = None) -> None: ...
    def __exit__(self, *args: object) -> None: ...


def _properties(device: Any = None) -> SimpleNamespace:
    major, minor = divmod(standin.CAPABILITY, 10)
    return SimpleNamespace(
        name=standin.NAME,
        major=major,
        minor=minor,
        multi_processor_count=standin.PROPERTIES["multiprocessor_count"],
        total_memory=80 << 30,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        max_threads_per_block=1024,
        regs_per_multiprocessor=standin.PROPERTIES["max_num_regs"],
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=standin.PROPERTIES["max_shared_mem"],
        shared_memory_per_multiprocessor=228 << 10,
        L2_cache_size=50 << 20,
        gcnArchName="",
        is_integrated=0,
        is_multi_gpu_board=0,
    )


def _constant(value: Any) -> Any:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return value

    return answer


def _answers() -> dict[str, Any]:
    stream = _Stream()
    capability = divmod(standin.CAPABILITY, 10)
    return {
        "is_available": _constant(True),
        "is_initialized": _constant(True),
        "init": _constant(None),
        "_lazy_init": _constant(None),
        "device_count": _constant(1),
        "current_device": _constant(0),
        "set_device": _constant(None),
        "synchronize": _constant(None),
        "empty_cache": _constant(None),
        "ipc_collect": _constant(None),
        "reset_peak_memory_stats": _constant(None),
        "memory_allocated": _constant(0),
        "max_memory_allocated": _constant(0),
        "memory_reserved": _constant(0),
        "max_memory_reserved": _constant(0),
        "mem_get_info": _constant((80 << 30, 80 << 30)),
        "manual_seed": _constant(None),
        "manual_seed_all": _constant(None),
        "seed": _constant(None),
        "seed_all": _constant(None),
        "initial_seed": _constant(0),
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "get_rng_state_all": lambda *_: [torch.get_rng_state()],
        "set_rng_state": _constant(None),
        "set_rng_state_all": _constant(None),
        "is_bf16_supported": _constant(True),
        "is_current_stream_capturing": _constant(False),
        "get_device_name": _constant(standin.NAME),
        "get_device_capability": _constant(capability),
        "get_device_properties": _properties,
        "get_arch_list": _constant([f"sm_{standin.CAPABILITY}"]),
        "current_stream": _constant(stream),
        "default_stream": _constant(stream),
        "set_stream": _constant(None),
        "stream": _Stream,
        "Stream": _Stream,
        "ExternalStream": _Stream,
        "Event": _Event,
        "device": _Device,
        "device_of": _Device,
    }


def install(recorder: Recorder) -> None:
    """Replace what ``torch.cuda`` answers, default devices, autocast and ``torch.compile``."""
    for name, value in _answers().items():
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, value)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, _constant(0))
    torch.cuda.nvtx.range = _Device  # type: ignore[assignment]
    torch.Tensor.record_stream = lambda tensor, stream: None  # type: ignore[method-assign,assignment]
    _redirect_first_argument(DeviceContext)
    _redirect_first_argument(torch.autocast)
    torch.Generator = _Generator  # type: ignore[misc]
    torch.compile = _eager(recorder)


def _redirect_first_argument(kind: Any) -> None:
    """Let a class take ``cuda`` for its device and mean the CPU."""
    original = kind.__init__

    def init(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> None:
        if "device_type" in kwargs:
            kwargs["device_type"] = str(to_cpu(kwargs["device_type"]))
            original(self, *args, **kwargs)
            return
        redirected = to_cpu(device)
        original(self, str(redirected) if isinstance(device, str) else redirected, *args, **kwargs)

    kind.__init__ = init


class _AnyGenerator(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TRUE_GENERATOR)


class _Generator(metaclass=_AnyGenerator):
    """Stands for `torch.Generator`, a C type that cannot be patched."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return _TRUE_GENERATOR(to_cpu(device))


def _eager(recorder: Recorder) -> Any:
    def compile_eagerly(model: Any = None, **options: Any) -> Any:
        recorder.note("torch.compile ran eagerly (no GPU)", "torch.compile ran eagerly")
        return model if model is not None else lambda function: function

    return compile_eagerly
