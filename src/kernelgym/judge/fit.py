"""Does a task fit into memory? Answered before anything large is allocated.

Two looks. While inputs and parameters are made, every factory call is counted before it runs, and
one that would pass the limit is refused. What they leave is then weighed; only where it takes a
good part of the limit are the outputs traced on the ``meta`` device, which loads half a library.

Not covered: temporaries inside ``forward``. A reference that runs out of memory there is still
`reference_does_not_fit`, only later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelgym.errors import TaskError

_FACTORIES = frozenset(
    [
        *("empty", "empty_strided", "full", "ones", "rand", "randint", "randn", "zeros"),
        *("new_empty", "new_full", "new_ones", "new_zeros"),
    ]
)
TRACE_ABOVE = 1 / 8
"""Part of the limit from which on the outputs are worth a trace on the meta device."""


class AllocationLimit(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses the factory call that would take all factory calls together past ``limit`` bytes."""

    def __init__(self, limit: int, what: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.limit = limit
        self.what = what
        self.bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: else torch would import its compiler (seconds) to keep it out of this mode."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Count, then run."""
        if func.overloadpacket.__name__ in _FACTORIES:
            self._count(_requested(args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _count(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self.limit:
            raise does_not_fit(self.bytes, self.limit, self.what)


def does_not_fit(need: int, limit: int, what: str) -> TaskError:
    """The fault of a task that is too large for this machine or this submission."""
    return TaskError(
        "reference_does_not_fit",
        f"{what} need at least {need / 2**20:,.0f} MiB, the limit is {limit / 2**20:,.0f} MiB",
        hint="raise memory_mb, or take a smaller task",
    )


def _requested(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    sizes = [item for item in args if isinstance(item, list | tuple | torch.Size)]
    count = 1
    for number in sizes[0] if sizes else ():
        count *= int(number)
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    return count * int(dtype.itemsize)
