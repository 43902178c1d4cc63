"""CUDA's device library for Triton's interpreter, which has none.

``libdevice.tanh``, ``erf`` and their like are among what kernels use most, and an honest kernel
must not fail for them on a machine without a GPU. Values come from torch in double precision,
rounded once to the result type: within a unit in the last place or two of the real library, which
rounds differently.

Not covered: directed rounding (``add_rd`` rounds to nearest), bit tricks other than those in the
table. Those raise as the plain interpreter does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch

from kernelgym.trace.recorder import Recorder

Values = torch.Tensor
_PI = torch.pi

_UNARY: dict[str, Callable[[Values], Values]] = {
    "abs": torch.abs, "acos": torch.acos, "acosh": torch.acosh, "asin": torch.asin,
    "asinh": torch.asinh, "atan": torch.atan, "atanh": torch.atanh, "ceil": torch.ceil,
    "cbrt": lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3), "cos": torch.cos,
    "cosh": torch.cosh, "cospi": lambda x: torch.cos(_PI * x), "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1, "erf": torch.erf, "erfc": torch.erfc,
    "erfcinv": lambda x: torch.erfinv(1 - x), "erfcx": torch.special.erfcx, "erfinv": torch.erfinv,
    "exp": torch.exp, "exp10": lambda x: torch.pow(10.0, x), "exp2": torch.exp2,
    "expm1": torch.expm1, "fabs": torch.abs, "finite": torch.isfinite, "floor": torch.floor,
    "isfinite": torch.isfinite, "isinf": torch.isinf, "isnan": torch.isnan,
    "j0": torch.special.bessel_j0, "j1": torch.special.bessel_j1, "lgamma": torch.lgamma,
    "llabs": torch.abs, "llrint": torch.round,
    "llround": lambda x: torch.copysign(torch.floor(x.abs() + 0.5), x), "log": torch.log,
    "log10": torch.log10, "log1p": torch.log1p, "log2": torch.log2,
    "logb": lambda x: torch.floor(torch.log2(x.abs())),
    "ilogb": lambda x: torch.floor(torch.log2(x.abs())), "nearbyint": torch.round,
    "normcdf": torch.special.ndtr, "normcdfinv": torch.special.ndtri,
    "rcbrt": lambda x: torch.sign(x) * torch.abs(x) ** (-1 / 3), "rint": torch.round,
    "round": lambda x: torch.copysign(torch.floor(x.abs() + 0.5), x), "rsqrt": torch.rsqrt,
    "saturate": lambda x: torch.clamp(torch.nan_to_num(x, nan=0.0), 0.0, 1.0),
    "signbit": torch.signbit, "sin": torch.sin, "sinh": torch.sinh,
    "sinpi": lambda x: torch.sin(_PI * x), "sqrt": torch.sqrt, "tan": torch.tan,
    "tanh": torch.tanh, "tgamma": lambda x: _gamma(x), "trunc": torch.trunc,
    "y0": torch.special.bessel_y0, "y1": torch.special.bessel_y1,
    "rcp": torch.reciprocal,
}  # fmt: skip
_BINARY: dict[str, Callable[[Values, Values], Values]] = {
    "add": torch.add, "atan2": torch.atan2, "copysign": torch.copysign, "div": torch.div,
    "divide": torch.div, "dim": lambda x, y: torch.clamp(x - y, min=0.0), "fmod": torch.fmod,
    "hypot": torch.hypot, "ldexp": lambda x, y: x * torch.exp2(y), "mul": torch.mul,
    "nextafter": torch.nextafter, "pow": torch.pow, "powi": torch.pow,
    "remainder": lambda x, y: x - y * torch.round(x / y),
    "rhypot": lambda x, y: 1 / torch.hypot(x, y), "scalbn": lambda x, y: x * torch.exp2(y),
    "sub": torch.sub,
}  # fmt: skip
_TERNARY: dict[str, Callable[[Values, Values, Values], Values]] = {
    "fma": lambda x, y, z: x * y + z,
    "norm3d": lambda x, y, z: torch.sqrt(x * x + y * y + z * z),
    "rnorm3d": lambda x, y, z: torch.rsqrt(x * x + y * y + z * z),
}
_TABLES: dict[int, dict[str, Callable[..., Values]]] = {1: _UNARY, 2: _BINARY, 3: _TERNARY}

_CAST = re.compile(r"(?:double|float|u?int|u?ll)2(?:double|float|u?int|u?ll)_r([nzdu])")
_ROUNDING = {"n": torch.round, "z": torch.trunc, "d": torch.floor, "u": torch.ceil}


def _gamma(x: Values) -> Values:
    reflected = _PI / (torch.sin(_PI * x) * torch.exp(torch.lgamma(1 - x)))
    return torch.where(x > 0, torch.exp(torch.lgamma(x)), reflected)


def lookup(symbol: str, arity: int) -> Callable[..., Values] | None:
    """Function for a symbol such as ``__nv_tanhf``; None when there is none."""
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    cast = _CAST.fullmatch(name)
    if cast:
        return _ROUNDING[cast[1]] if "2int" in name or "2uint" in name or "ll_" in name else _same
    name = re.sub(r"_r[nzdu]$", "", name)
    table = _TABLES.get(arity, {})
    for bare in (name, name[:-1]) if name[-1] in "fd" else (name,):  # type as a suffix
        for spelling in (bare, bare[1:]) if bare[:1] in ("f", "d") else (bare,):  # or as a prefix
            if spelling in table:
                return table[spelling]
    return None


def _same(x: Values) -> Values:
    return x


def install(recorder: Recorder) -> None:
    """Give the interpreter the device library, under all the names that it goes by."""
    from triton.runtime import interpreter

    def create(self: Any, *args: Any) -> Any:
        with recorder.paused():  # torch computes here for the kernel
            return _create_extern_elementwise(self, *args)

    interpreter.InterpreterBuilder.create_extern_elementwise = create
    modules = _modules()
    for name, function in list(vars(modules[0]).items()):
        if callable(function) and getattr(function, "__triton_builtin__", False):
            for module in modules:
                setattr(module, name, _with_semantic(function, interpreter.interpreter_semantic))


def _modules() -> list[ModuleType]:
    import triton.language.extra.cuda.libdevice as cuda
    import triton.language.extra.libdevice as generic

    return [cuda, generic]


def _with_semantic(function: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**kwargs, "_semantic": semantic})

    return call


def _create_extern_elementwise(
    self: Any,
    library: str,
    path: str,
    symbol: str,
    arguments: list[Any],
    result_type: Any,
    is_pure: bool,
) -> Any:
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    function = lookup(symbol, len(arguments))
    if function is None:
        raise NotImplementedError(f"{symbol} not supported in interpreter mode")
    wide = [torch.from_numpy(np.atleast_1d(item.data).astype(np.float64)) for item in arguments]
    scalar = getattr(result_type, "scalar", result_type)
    with np.errstate(all="ignore"):
        data = function(*wide).numpy().astype(_get_np_dtype(scalar))
    return TensorHandle(data, scalar)
