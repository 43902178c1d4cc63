"""Which operators of torch the reference runs, and the heavy ones among any list of operators.

A candidate's counts arrive as evidence records from its own process
(`kernelgym.trace.census`, which also says what it cannot see).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from kernelgym.trace.census import MOVES, heavy_class


class OperatorCensus(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the ATen operators that run inside the ``with`` block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()
        self.flops = 0
        """Of operators that torch has a formula for: matrix products, convolutions, attention."""

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
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            with suppress(Exception):  # a formula of torch's that does not know these arguments
                self.flops += int(formula(*args, **(kwargs or {}), out_val=result))
        return result


def computing(operators: Iterable[str]) -> set[str]:
    """Operators that compute something."""
    return {name for name in operators if name.rpartition(".")[2] not in MOVES}


def heavy_classes(operators: Iterable[str]) -> dict[str, list[str]]:
    """Heavy classes among operators, each with the operators that belong to it."""
    found: dict[str, list[str]] = {}
    for operator in operators:
        group = heavy_class(operator)
        if group is not None:
            found.setdefault(group, []).append(operator)
    return found
