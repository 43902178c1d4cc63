"""One forward call: inputs as views of the input pool, outputs copied dense into the output pool.

Three steps, kept apart so that a timed call can arm the device between them: `arguments` (views),
the call itself, `Returned.answer` (copy, aliases, layouts). What a candidate returns is described,
never trusted: any container, any scalar, any tensor subclass, on any device, of any size.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelgym.sandbox import aliasing, tree
from kernelgym.sandbox.messages import Call, Output
from kernelgym.sandbox.pool import TensorLayout, Views, place_dense, view

MAX_TENSORS = 10_000


def arguments(request: Call, pool: torch.Tensor | Views) -> tuple[list[Any], list[torch.Tensor]]:
    """Positional arguments of the call and the tensors in them, as views with strides kept."""
    made = pool.fresh if isinstance(pool, Views) else functools.partial(view, pool)
    tensors = [made(layout) for layout in request.tensors]
    for tensor, layout in zip(tensors, request.tensors, strict=True):
        if layout.requires_grad:
            tensor.requires_grad_()
    return tree.unflatten(request.arguments, tensors), tensors


def input_ranges(tensors: Sequence[torch.Tensor]) -> list[aliasing.Range]:
    """Where the tensors of the arguments lie, by the names that answers use for them."""
    return aliasing.ranges("input", enumerate(tensors))


class Returned:
    """What a call gave back, split into a tree and its tensors."""

    def __init__(self, value: object) -> None:
        self.node, self.tensors = tree.flatten(value)
        if len(self.tensors) > MAX_TENSORS:
            self.node, self.tensors = {"k": "other", "v": f"more than {MAX_TENSORS} tensors"}, []

    def answer(
        self,
        pool: torch.Tensor,
        offset: int,
        others: Sequence[aliasing.Range],
        earlier: Sequence[torch.Tensor] = (),
    ) -> Output:
        """Copy the tensors (and ``earlier`` ones once more, after them) and describe them."""
        return self.copied(pool, offset, earlier).described(others)

    def copied(
        self, pool: torch.Tensor | Views, offset: int, earlier: Sequence[torch.Tensor] = ()
    ) -> Copied:
        """Queue the copies; what has to be known of the tensors while they are there."""
        layouts, end = copy_out(pool, self.tensors, offset)
        again, _ = copy_out(pool, earlier, end)
        plain = [tensor.detach() for tensor in self.tensors if _is_dense(tensor)]
        return Copied(
            self.node,
            tuple(layouts),
            tuple(again),
            tuple(tensor.device.type for tensor in self.tensors),
            aliasing.ranges("output", enumerate(plain)),
            aliasing.ranges("earlier", enumerate(earlier)),
            len(plain) == len(self.tensors),
        )


@dataclass(frozen=True)
class Copied:
    """An answer whose tensors need not live any longer."""

    node: tree.Node
    layouts: tuple[TensorLayout, ...]
    again: tuple[TensorLayout, ...]
    devices: tuple[str, ...]
    places: list[aliasing.Range]
    earlier: list[aliasing.Range]
    all_plain: bool
    """Whether it is known of every tensor where it lay."""

    def described(self, others: Sequence[aliasing.Range]) -> Output:
        """``others``: memory that outputs must not share."""
        known = [*others, *self.earlier]
        found = aliasing.aliases_of(self.places, known) if self.all_plain else []
        return Output(
            tree=self.node,
            tensors=self.layouts,
            aliases=tuple(found),
            devices=self.devices,
            earlier=self.again,
        )


def copy_out(
    pool: torch.Tensor | Views, tensors: Sequence[torch.Tensor], offset: int
) -> tuple[list[TensorLayout], int]:
    """Copy tensors densely into the pool; those that do not fit or have no bytes get offset -1."""
    flat = pool.flat if isinstance(pool, Views) else pool
    place = pool.of if isinstance(pool, Views) else functools.partial(view, pool)
    layouts, size = [], flat.numel()
    for tensor in tensors:
        (layout,), end = place_dense([tensor], offset)
        if end <= size and _is_dense(tensor) and _copied(place(layout), tensor):
            offset = end
        elif tensor.numel() or not _is_dense(tensor):
            layout = layout.model_copy(update={"offset": -1})
        layouts.append(layout)
    return layouts, offset


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.device.type != "meta"


def _copied(target: torch.Tensor, value: torch.Tensor) -> bool:
    try:
        with torch._C.DisableTorchFunctionSubclass():
            target.copy_(value.detach())
    except Exception:  # noqa: BLE001 - a tensor subclass runs its own code here
        return False
    return True
