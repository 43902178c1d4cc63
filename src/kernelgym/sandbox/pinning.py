"""Switches of torch that change numbers or speed, alike in the judge's and the candidate's process.

* what fp32 becomes on tensor cores: products in fp32 proper, convolutions and recurrences in TF32,
  which is what torch does by itself;
* how 16-bit sums are reduced; cuDNN on, its search for algorithms off, nothing made deterministic;
* autocast off, fp32 as default dtype, one thread.

`restore` brings them there, `read` says how they are. A candidate can change them, and a reference,
too: both are put back before every further call, so that nobody is timed under another's switches.
What is read in the candidate's process is a claim. Only ``torch._C`` is asked: the attributes of
``torch.backends`` raise where a program mixes the old and the new way to allow TF32, and they can
be replaced.

Not covered: the backends of ``scaled_dot_product_attention``, the default device, and switches of
libraries other than torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

THREADS = 1
"""Threads of an operator on the CPU."""
PINNED: Mapping[str, str] = {
    "matmul_fp32": "ieee",
    "conv_fp32": "tf32",
    "rnn_fp32": "tf32",
    "fp16_reduced_sums": "on",
    "bf16_reduced_sums": "on",
    "fp16_accumulation": "off",
    "cudnn": "on",
    "cudnn_benchmark": "off",
    "cudnn_deterministic": "off",
    "deterministic": "off",
    "autocast": "off",
    "default_dtype": "float32",
    "threads": str(THREADS),
}
"""Every switch and its value, by the names that results use."""

_c: Any = torch._C
_AUTOCAST_DEVICES = ("cuda", "cpu")


def read() -> dict[str, str]:
    """The switches as they are now."""
    found = {
        "matmul_fp32": _precision("matmul"),
        "conv_fp32": _precision("conv"),
        "rnn_fp32": _precision("rnn"),
        "fp16_reduced_sums": _on(_first(_c._get_cublas_allow_fp16_reduced_precision_reduction())),
        "bf16_reduced_sums": _on(_first(_c._get_cublas_allow_bf16_reduced_precision_reduction())),
        "fp16_accumulation": _on(_c._get_cublas_allow_fp16_accumulation()),
        "cudnn": _on(_c._get_cudnn_enabled()),
        "cudnn_benchmark": _on(_c._get_cudnn_benchmark()),
        "cudnn_deterministic": _on(_c._get_cudnn_deterministic()),
        "deterministic": _on(_c._get_deterministic_algorithms()),
        "autocast": _on(any(_c.is_autocast_enabled(device) for device in _AUTOCAST_DEVICES)),
        "default_dtype": str(_c.get_default_dtype()).removeprefix("torch."),
        "threads": str(_c.get_num_threads()),
    }
    assert found.keys() == PINNED.keys()
    return found


def restore() -> dict[str, str]:
    """Bring every switch to its pinned value; those that had another one, with that value.

    One that this torch does not let go from where it is is not among them.
    """
    found = read()
    if found == PINNED:
        return {}
    for bring_back in _SETTERS:
        bring_back()
    now = read()
    return {name: value for name, value in found.items() if now[name] != value}


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Products, convolutions and recurrences of fp32 with or without TF32; pinned afterwards."""
    restore()
    try:
        _c._set_cublas_allow_tf32(allowed)
        _c._set_cudnn_allow_tf32(allowed)
        yield
    finally:
        restore()


def differences(flags: Mapping[str, str], others: Mapping[str, str] = PINNED) -> str:
    """``name=value`` of the switches that are not as in ``others``; empty when all are."""
    pairs = ((name, flags.get(name, "?")) for name in PINNED)
    return " ".join(f"{name}={value}" for name, value in pairs if value != others[name])


def _bring_back_precisions() -> None:
    for backend in ("generic", "cuda", "mkldnn"):
        _c._set_fp32_precision_setter(backend, "all", "none")
    _c._set_float32_matmul_precision("highest")
    _c._set_cublas_allow_tf32(False)
    _c._set_cudnn_allow_tf32(True)


def _bring_back_sums() -> None:
    matmul = torch.backends.cuda.matmul  # its setters know how many arguments this torch wants
    matmul.allow_fp16_reduced_precision_reduction = True
    matmul.allow_bf16_reduced_precision_reduction = True


def _bring_back_autocast() -> None:
    for device in _AUTOCAST_DEVICES:
        _c.set_autocast_enabled(device, False)


def _bring_back_threads() -> None:
    if _c.get_num_threads() != THREADS:
        _c.set_num_threads(THREADS)


_SETTERS: tuple[Callable[[], None], ...] = (
    _bring_back_precisions,
    _bring_back_sums,
    lambda: _c._set_cublas_allow_fp16_accumulation(False),
    lambda: _c._set_cudnn_enabled(True),
    lambda: _c._set_cudnn_benchmark(False),
    lambda: _c._set_cudnn_deterministic(False),
    lambda: _c._set_deterministic_algorithms(False),
    _bring_back_autocast,
    lambda: _c._set_default_dtype(torch.float32),
    _bring_back_threads,
)


def _precision(operation: str) -> str:
    """``none`` is what no switch, general ones included, says anything about: fp32 proper."""
    value: str = _c._get_fp32_precision_getter("cuda", operation)
    return "ieee" if value == "none" else value


def _first(value: Any) -> bool:
    return bool(value[0] if isinstance(value, tuple) else value)


def _on(value: Any) -> str:
    return "on" if value else "off"
