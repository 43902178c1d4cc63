"""bfloat16 for Triton's interpreter, which keeps it as 16-bit integers and computes with those.

Loads, stores and casts to and from float32 are right as they are; every other floating-point
operation on bfloat16 would be arithmetic on bit patterns. Here operands are widened to float32
(exact) and a bfloat16 result is rounded once, to nearest even: what a GPU does.

Not covered: atomics on bfloat16; they are refused as unsupported rather than computed wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_RESULT_FLOAT = (
    "create_fadd", "create_fmul", "create_fdiv", "create_frem", "create_fsub", "create_fneg",
    "create_precise_divf", "create_approx_divf", "create_minimumf", "create_minnumf",
    "create_maximumf", "create_maxnumf", "create_clampf", "create_fma", "create_floor",
    "create_ceil", "create_sqrt", "create_precise_sqrt", "create_rsqrt", "create_exp",
    "create_exp2", "create_log", "create_log2", "create_sin", "create_cos", "create_erf",
)  # fmt: skip
_COMPARISONS = tuple(
    f"create_fcmp{order}{test}" for order in "OU" for test in ("LT", "GT", "LE", "GE", "EQ", "NE")
)


def widen(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Values of bfloat16 bit patterns."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrow(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Bit patterns of the nearest bfloat16 values, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def install() -> None:
    """Wrap the operations of the interpreter's builder."""
    from triton.runtime.interpreter import InterpreterBuilder

    for name in (*_RESULT_FLOAT, *_COMPARISONS, "create_dot"):
        original = getattr(InterpreterBuilder, name, None)
        if original is not None:
            setattr(InterpreterBuilder, name, _widened(original, rounds=name in _RESULT_FLOAT))
    InterpreterBuilder.cast_impl = _cast(InterpreterBuilder.cast_impl)
    InterpreterBuilder.get_bf16 = _constant  # Triton 3.6 has none
    InterpreterBuilder.create_atomic_rmw = _refusing(InterpreterBuilder.create_atomic_rmw)


def _is_bfloat16(item: Any) -> bool:
    import triton.language as tl

    kind = getattr(item, "dtype", None)
    return kind is not None and getattr(kind, "scalar", None) == tl.bfloat16


def _wide(item: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    return TensorHandle(widen(item.data), tl.float32) if _is_bfloat16(item) else item


def _widened(original: Callable[..., Any], *, rounds: bool) -> Callable[..., Any]:
    def operation(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(map(_is_bfloat16, args)):
            return original(self, *args, **kwargs)
        result = original(self, *map(_wide, args), **kwargs)
        return self.cast_impl(result, _bfloat16()) if rounds else result

    return operation


def _bfloat16() -> Any:
    import triton.language as tl

    return tl.bfloat16


def _constant(self: Any, value: float) -> Any:
    return self.cast_impl(self.get_fp32(value), _bfloat16())


def _cast(original: Callable[..., Any]) -> Callable[..., Any]:
    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        from_it, to_it = _is_bfloat16(source), target.scalar == tl.bfloat16
        if from_it == to_it:
            return original(self, source, target)
        if from_it:
            return original(self, _wide(source), target)
        if source.dtype.scalar != tl.float32:
            source = original(self, source, tl.float32)
        return TensorHandle(narrow(source.data), tl.bfloat16)

    return cast_impl


def _refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    def atomic(self: Any, operation: Any, pointer: Any, value: Any, *rest: Any) -> Any:
        if _is_bfloat16(value):
            raise NotImplementedError("bfloat16 atomics not supported in interpreter mode")
        return original(self, operation, pointer, value, *rest)

    return atomic
