"""One forward call: inputs as views of the input pool, outputs copied dense into the output pool.

Three steps, kept apart so that a timed call can arm the device between them: `arguments` (views),
the call itself, `Returned.answer` (copy, aliases, layouts). What a candidate returns is described,
never trusted: any container, any scalar, any tensor subclass, on any device, of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kernelgym.sandbox import aliasing, tree
from kernelgym.sandbox.messages import Call, Output
from kernelgym.sandbox.pool import TensorLayout, place_dense, view

MAX_TENSORS = 10_000


def arguments(request: Call, pool: torch.Tensor) -> tuple[list[Any], list[torch.Tensor]]:
    """Positional arguments of the call and the tensors in them, as views with strides kept."""
    tensors = [view(pool, layout) for layout in request.tensors]
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
        layouts, end = copy_out(pool, self.tensors, offset)
        again, _ = copy_out(pool, earlier, end)
        plain = [tensor.detach() for tensor in self.tensors if _is_dense(tensor)]
        known = [*others, *aliasing.ranges("earlier", enumerate(earlier))]
        found = aliasing.aliases(plain, known) if len(plain) == len(self.tensors) else []
        return Output(
            tree=self.node,
            tensors=tuple(layouts),
            aliases=tuple(found),
            devices=tuple(tensor.device.type for tensor in self.tensors),
            earlier=tuple(again),
        )


def copy_out(
    pool: torch.Tensor, tensors: Sequence[torch.Tensor], offset: int
) -> tuple[list[TensorLayout], int]:
    """Copy tensors densely into the pool; those that do not fit or have no bytes get offset -1."""
    layouts = []
    for tensor in tensors:
        (layout,), end = place_dense([tensor], offset)
        if end <= pool.numel() and _is_dense(tensor) and _copied(view(pool, layout), tensor):
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
