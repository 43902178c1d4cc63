"""Which operators of torch the reference runs, and the heavy ones among any list of operators.

A candidate's counts arrive as evidence records from its own process
(`kernelgym.trace.census`, which also says what it cannot see).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from kernelgym.trace.census import heavy_class


class OperatorCensus(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the ATen operators that run inside the ``with`` block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

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
        self.counts[f"{func.namespace}.{func.overloadpacket.__name__}"] += 1
        return func(*args, **(kwargs or {}))


def heavy_classes(operators: Iterable[str]) -> dict[str, list[str]]:
    """Heavy classes among operators, each with the operators that belong to it."""
    found: dict[str, list[str]] = {}
    for operator in operators:
        group = heavy_class(operator)
        if group is not None:
            found.setdefault(group, []).append(operator)
    return found
