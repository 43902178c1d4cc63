"""How numpy arrays, torch tensors and plain lists enter the algorithms and leave them again.

Three rules hold for the whole package:

* **Kind.** numpy (or a list) in, numpy out; a torch tensor in, a tensor on the same device out.
  torch is never imported here: a tensor can only exist once its owner has imported torch.
* **Width.** Arithmetic on rewards, returns and advantages is float64. The result is float64 when
  the input is float64, integer, bool or a list, and float32 when every floating input is narrower
  (float32, float16, bfloat16).
* **Where.** Arrays of trajectories, turns and rows hold thousands of numbers and are computed on
  the host; arrays with a token axis are computed where they live and, for the losses, stay
  differentiable.

``None`` and NaN both mean "not measured".
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

ArrayLike: TypeAlias = Any
"""A numpy array, a torch tensor, a (nested) sequence, or a scalar where the function says so."""
Array: TypeAlias = Any
"""A numpy array or a torch tensor, the same kind as the input."""
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64]


def is_tensor(values: object) -> bool:
    """Whether ``values`` is a torch tensor, without importing torch."""
    tensor_type = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor_type is not None and isinstance(values, tensor_type)


def as_numpy(values: ArrayLike, name: str) -> npt.NDArray[Any]:
    """``values`` as a numpy array of its own dtype; narrow floats of a tensor become float64."""
    if is_tensor(values):
        detached = values.detach().cpu()
        # numpy has no bfloat16, and float64 holds every narrower float exactly
        return np.asarray(detached.double() if detached.is_floating_point() else detached)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name} is ragged: pad its rows to one length and mark the padding invalid"
        ) from error


def as_floats(values: ArrayLike, name: str) -> Floats:
    """``values`` as a float64 numpy array; ``None`` becomes NaN."""
    array = as_numpy(values, name)
    if array.dtype != object:
        return array.astype(np.float64, copy=False)
    flat = [np.nan if value is None else float(value) for value in array.ravel()]
    return np.array(flat, dtype=np.float64).reshape(array.shape)


def as_bools(values: ArrayLike, name: str) -> Bools:
    """``values`` as a bool numpy array: nonzero is true, ``None`` and NaN are false."""
    array = as_numpy(values, name)
    if array.dtype == bool:
        return array
    numbers = as_floats(array, name)
    return np.asarray(np.nan_to_num(numbers, nan=0.0) != 0)


def as_stored(bound: float, values: ArrayLike) -> float:
    """``bound`` rounded like ``values``: a stored float32 0.7 is below the float64 0.7."""
    if is_tensor(values) and values.is_floating_point():
        return float(values.new_tensor(bound))
    if isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.floating):
        return float(values.dtype.type(bound))
    return bound


def check_shape(array: npt.NDArray[Any], shape: tuple[int, ...], name: str, letters: str) -> None:
    """Raise ValueError unless ``array`` has ``shape``; ``letters`` names the axes."""
    if array.shape != shape:
        raise ValueError(
            f"{name} must have shape {letters} = {list(shape)}, not {list(array.shape)}"
        )


def as_table(values: ArrayLike, name: str) -> Floats:
    """``values`` as a float64 [B, T] table; an empty list is a table without rows."""
    table = as_floats(values, name)
    if table.size == 0 and table.ndim == 1:
        table = table.reshape(0, 0)
    if table.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional [B, T], not {list(table.shape)}")
    return table


def as_mask(valid: ArrayLike, shape: tuple[int, ...], name: str = "valid") -> Bools:
    """``valid`` as a bool array of ``shape`` (an empty list fits any shape without elements)."""
    mask = as_bools(valid, name)
    if mask.size == 0 and 0 in shape:
        mask = mask.reshape(shape)
    check_shape(mask, shape, name, "[B, T]" if len(shape) == 2 else "[R]")
    return mask


@dataclass(frozen=True)
class Kind:
    """What a result is made into: library and device, float width, array or Python number."""

    device: Any = None
    single: bool = False
    scalar: bool = False

    def floats(self, values: Floats) -> Array:
        """``values`` as floats of this kind."""
        if self.scalar:
            return float(values)
        return self._place(values.astype(np.float32) if self.single else values)

    def exact(self, values: npt.NDArray[Any]) -> Array:
        """``values`` of this kind with their own dtype: bools, integers, or exact floats."""
        return values.item() if self.scalar else self._place(values)

    def _place(self, values: npt.NDArray[Any]) -> Array:
        if self.device is None:
            return values
        return sys.modules["torch"].from_numpy(np.array(values)).to(self.device)


def kind_of(*inputs: ArrayLike) -> Kind:
    """The kind of a result computed from ``inputs`` (``None`` entries are ignored)."""
    given = [values for values in inputs if values is not None]
    tensors = [values for values in given if is_tensor(values)]
    arrays = tensors + [values for values in given if isinstance(values, np.ndarray)]
    widths = [array.dtype.itemsize for array in arrays if _is_floating(array)]
    return Kind(
        device=tensors[0].device if tensors else None,
        single=bool(widths) and max(widths) < 8,
        scalar=not tensors and all(np.ndim(values) == 0 for values in given),
    )


def _is_floating(array: Array) -> bool:
    if is_tensor(array):
        return bool(array.is_floating_point())
    return np.issubdtype(array.dtype, np.floating)


@dataclass(frozen=True)
class TokenSpace:
    """Library and device of arrays with tokens; ``xp`` is numpy or torch, by common names."""

    xp: Any
    device: Any

    def floats(self, values: ArrayLike, dtype: Any) -> Array:
        """``values`` as floats of ``dtype`` here; a tensor stays attached to its graph."""
        if self.device is None:
            if isinstance(values, np.ndarray) and _is_floating(values):
                return values.astype(dtype, copy=False)
            return np.asarray(as_floats(values, "tokens"), dtype=dtype)
        if is_tensor(values):
            return values.to(device=self.device, dtype=dtype)
        return self.xp.as_tensor(as_floats(values, "tokens"), dtype=dtype, device=self.device)

    def constants(self, values: ArrayLike, dtype: Any) -> Array:
        """``values`` as floats of ``dtype`` here, without a graph."""
        return self.floats(values.detach() if is_tensor(values) else values, dtype)

    def bools(self, values: ArrayLike) -> Array:
        """``values`` as bools here: nonzero is true, ``None`` and NaN are false."""
        if self.device is None:
            return as_bools(values, "mask")
        if is_tensor(values):
            here = values.to(self.device)
            return (here != 0) & ~here.isnan() if here.is_floating_point() else here != 0
        return self.xp.as_tensor(as_bools(values, "mask"), device=self.device)

    def table(self, array: Array) -> Array:
        """``array`` itself, but an empty list is a table without rows."""
        return array.reshape(0, 0) if tuple(array.shape) == (0,) else array

    def at_least_single(self, values: ArrayLike) -> Any:
        """The dtype to compute in: float64, or float32 for narrower floats."""
        known = is_tensor(values) or isinstance(values, np.ndarray)
        narrow = known and _is_floating(values) and values.dtype.itemsize < 8
        return self.xp.float32 if narrow else self.xp.float64


def token_space(*inputs: ArrayLike) -> TokenSpace:
    """torch on the device of the first tensor among ``inputs``, else numpy."""
    for values in inputs:
        if is_tensor(values):
            return TokenSpace(sys.modules["torch"], values.device)
    return TokenSpace(np, None)
