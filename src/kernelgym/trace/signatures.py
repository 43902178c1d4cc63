"""How a kernel was launched, as data: enough to compile it again for another target.

Types come from Triton's own binder (what it would use to pick a compiled variant), asked for a CUDA
target although the launch runs in the interpreter. Values that cannot travel as JSON are encoded by
`encode`; the compiler process turns them back (`decode`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from kernelgym.sandbox.messages import LaunchSignature

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_MAX_TEXT = 2000
UNKNOWN = "unknown"
"""Type of an argument that cannot be described; such a launch is not compiled again."""


def describe(
    function: Callable[..., Any],
    jit_options: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> LaunchSignature:
    """Signature of a launch of ``function`` (jitted with ``jit_options``) with these arguments."""
    binder = _binder(
        function,
        tuple(jit_options.get("do_not_specialize") or ()),
        tuple(jit_options.get("do_not_specialize_on_alignment") or ()),
    )
    bound, specialization, _ = binder(*args, **kwargs)
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    aligned = []
    for name, (kind, extra) in zip(bound, specialization, strict=True):
        signature[name] = kind if isinstance(kind, str) else UNKNOWN
        if kind == "constexpr":
            constants[name] = encode(bound[name])
        elif isinstance(extra, str) and "D" in extra:
            aligned.append(name)
    options = {name: int(kwargs[name]) for name in _OPTIONS if isinstance(kwargs.get(name), int)}
    return LaunchSignature(
        kernel=function.__code__.co_qualname[:200],
        signature=signature,
        constants=constants,
        options=options,
        aligned=tuple(aligned),
        line=function.__code__.co_firstlineno,
    )


@cache
def _binder(function: Any, unspecialized: tuple[Any, ...], unaligned: tuple[Any, ...]) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend
    from triton.runtime.jit import KernelParam, create_function_from_signature

    signature = inspect.signature(function)
    parameters = [
        KernelParam(
            index,
            parameter,
            index in unspecialized or parameter.name in unspecialized,
            index in unaligned or parameter.name in unaligned,
        )
        for index, parameter in enumerate(signature.parameters.values())
    ]
    backend = make_backend(GPUTarget("cuda", 90, 32))
    return create_function_from_signature(signature, parameters, backend)


def encode(value: Any) -> Any:
    """A constexpr value as JSON: plain values as themselves, others as a dict with one key."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if value is None or isinstance(value, bool | int):
        return bool(value) if isinstance(value, bool) else value and int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, str):
        return str(value) if len(value) <= _MAX_TEXT else {UNKNOWN: "a long string"}
    if isinstance(value, list | tuple):
        return {"tuple": [encode(item) for item in value[:100]]}
    if type(value).__name__ == "dtype" and type(value).__module__.startswith("triton."):
        return {"dtype": str(value)}
    if inspect.isfunction(getattr(value, "fn", None)):
        return {"function": value.fn.__qualname__}
    return {UNKNOWN: type(value).__name__[:100]}


def decode(value: Any, functions: Mapping[str, Any]) -> Any:
    """The value that `encode` encoded; raises ``LookupError`` for one that is gone or unknown."""
    if not isinstance(value, dict):
        return value
    (kind, content), *_ = value.items()
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(decode(item, functions) for item in content)
    if kind == "function":
        return functions[content]
    if kind == "dtype":
        import triton.language as tl

        return tl.dtype(content)
    raise LookupError(f"an argument of type {content}")
