"""The operator graph of a module as torch runs it, whatever its source looks like.

The module runs once on the ``meta`` device, where tensors have shapes and no contents, so full
sizes cost nothing. Each operator becomes a hash of its name and the hashes of its operands;
operators that only change the view of a tensor are left out, and so are sizes, axes and other
attributes: two programs with one hash do the same kinds of work in the same arrangement.

Not covered: control flow that looks at values, and code that ``meta`` tensors cannot run. Such a
module has no graph, which `trace_graph` says by raising whatever it raised.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_VIEWS = frozenset(
    [
        *("view", "_unsafe_view", "reshape", "_reshape_alias", "t", "transpose", "permute"),
        *("expand", "squeeze", "unsqueeze", "detach", "alias", "slice", "select", "as_strided"),
        *("split", "split_with_sizes", "unbind", "chunk", "clone", "lift_fresh", "_to_copy"),
        *("view_as", "unfold", "contiguous", "diagonal"),
    ]
)
_FUSED = frozenset({"addmm", "baddbmm"})
_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum"})


class _Graph(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps a hash for every tensor that has been seen."""

    def __init__(self, limit_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._until = time.process_time() + limit_s
        self.operators: list[str] = []
        self._known: dict[int, tuple[str, torch.Tensor]] = {}

    def note(self, tensor: torch.Tensor, text: str) -> None:
        """Give a tensor its hash; holding it keeps its ``id`` from being used again."""
        self._known[id(tensor)] = (text, tensor)

    def of(self, tensor: torch.Tensor) -> str:
        """Hash of a tensor; one that nothing is known of was made inside."""
        return self._known[id(tensor)][0] if id(tensor) in self._known else "fresh"

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run, then hash."""
        if time.process_time() > self._until:
            raise TimeoutError("the module runs too many operators")
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        plain = name.removesuffix("_") if not name.endswith("__") else name
        reads = [self.of(tensor) for tensor in _tensors((args, kwargs or {}))]
        if plain in _VIEWS:
            text = reads[0] if reads else "fresh"
        elif plain in _FUSED:
            # Which of the two torch takes depends on strides; the work is the same.
            text = self._hashed("add", [reads[0], self._hashed("mm", reads[1:])])
        else:
            text = self._hashed("mm" if plain == "bmm" else plain, reads)
        for number, tensor in enumerate(_tensors(result)):
            self.note(tensor, text if number == 0 or plain in _VIEWS else f"{text}.{number}")
        return result

    def _hashed(self, operator: str, reads: list[str]) -> str:
        self.operators.append(operator)
        if operator in _COMMUTATIVE:
            reads = sorted(reads)
        return _digest(f"{operator}({','.join(reads)})")


def trace_graph(
    model: torch.nn.Module, inputs: Sequence[object], limit_s: float = 120.0
) -> tuple[str, tuple[str, ...]]:
    """Hash of what the module returns, and the operators it ran.

    ``limit_s`` is processor time, so that a busy machine finds the same graphs. It is looked at
    between operators: an alarm could ring while the mode is being left, and it would stay.
    """
    graph = _Graph(limit_s)
    for tensor in (*model.parameters(), *model.buffers()):
        graph.note(tensor, "parameter")
    for number, tensor in enumerate(_tensors(list(inputs))):
        graph.note(tensor, f"input{number}")
    with torch.no_grad(), graph:
        returned = model(*inputs)
    return _digest("|".join(graph.of(t) for t in _tensors(returned))), tuple(graph.operators)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
