"""Tensors and numbers as plain data, and as the source that makes them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Dtype = Literal[
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"
]
"""Names of torch dtypes."""


class TensorValue(BaseModel):
    """A dense tensor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["tensor"] = "tensor"
    dtype: Dtype
    """Name of a torch dtype."""
    shape: tuple[Annotated[int, Field(ge=0)], ...]
    """Sizes of its dimensions."""
    data: tuple[bool | int | float, ...]
    """Elements in row-major order."""

    @model_validator(mode="after")
    def _size_fits(self) -> TensorValue:
        if len(self.data) != math.prod(self.shape):
            raise ValueError(f"shape {self.shape} does not hold {len(self.data)} elements")
        return self


Leaf = TensorValue | bool | int | float | str | None
Value = Leaf | tuple[Leaf, ...]
"""What cases are made of: tensors, plain values, and tuples of these."""


def source_of(value: Value | tuple[Value, ...]) -> str:
    """An expression that makes the value anew."""
    if isinstance(value, TensorValue):
        elements = ", ".join(_literal(item) for item in value.data)
        return f"torch.tensor([{elements}], dtype=torch.{value.dtype}).reshape({value.shape})"
    if isinstance(value, tuple):
        inner = ", ".join(source_of(item) for item in value)
        return f"({inner},)" if value else "()"
    return _literal(value)


def _literal(value: float | int | bool | str | None) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def tensors_in(value: Value) -> Iterator[TensorValue]:
    """Every tensor inside a value."""
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, TensorValue):
            yield item


def rms(value: Value) -> float:
    """Root mean square of the finite elements; the smallest of several tensors."""
    found = []
    for tensor in tensors_in(value):
        finite = [float(item) for item in tensor.data if math.isfinite(item)]
        if finite:
            found.append(math.sqrt(math.fsum(item * item for item in finite) / len(finite)))
    return min(found, default=0.0)
