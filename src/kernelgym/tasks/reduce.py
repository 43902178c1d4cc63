"""The same problem at sizes that a CPU manages: constants of a reference made smaller.

Sizes of KernelBench problems stand in module-level constants, and in literals of ``get_inputs``.
Each is shrunk by what its name says it is: a batch is cut, features and spatial sizes are halved
until they fit. The map depends on the value only, so that sizes that were equal stay equal; odd
sizes stay odd, small ones (kernels, strides, heads) stay as they are, and group counts stay below
the channels. A problem whose parts constrain each other may not survive the strongest reduction:
`reductions` yields the weaker ones too, and the caller keeps the first that works.

Not covered: sizes written inside the model's class.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kernelgym.tasks.constants import replace_spans

_BATCH = frozenset({"batch", "b"})
_SPATIAL = frozenset(
    {
        "height", "width", "depth", "length", "len", "seq", "seqlen", "sequence", "image",
        "dim1", "dim2", "dim3", "h", "w", "d",
    }
)  # fmt: skip
_GROUPS = frozenset({"groups", "heads", "head"})

Kind = Literal["batch", "spatial", "groups", "features"]


@dataclass(frozen=True)
class Reduction:
    """How strongly each kind of size is cut; None leaves it alone."""

    name: str
    batch: int
    features: int | None
    spatial: int | None
    literals: bool
    """Also cut literals in ``get_inputs``."""


REDUCTIONS = (
    Reduction("all", batch=4, features=64, spatial=32, literals=True),
    Reduction("constants", batch=4, features=64, spatial=32, literals=False),
    Reduction("spatial", batch=4, features=None, spatial=32, literals=True),
    Reduction("mild", batch=2, features=64, spatial=128, literals=True),
    Reduction("mild spatial", batch=2, features=None, spatial=128, literals=True),
    Reduction("batch", batch=2, features=None, spatial=None, literals=False),
)
"""Strongest first."""

_GROUPS_AT_MOST = 8
_IMAGE = 32
"""A literal of ``get_inputs`` from this size on is the side of an image."""
_BATCH_WITHOUT_SPACE = 32
"""A batch of rows costs little, and reductions over it need more than a handful."""


def reductions(source: str) -> Iterator[tuple[str, str]]:
    """Name and text of each reduced version of a reference, strongest first, no text twice."""
    seen = set()
    for reduction in REDUCTIONS:
        text = reduced(source, reduction)
        if text not in seen:
            seen.add(text)
            yield reduction.name, text


def reduced(source: str, reduction: Reduction) -> str:
    """The source with its sizes cut; raises ``SyntaxError`` when it cannot be parsed."""
    tree = ast.parse(source)
    sizes = list(_sizes(tree))
    has_space = any(kind == "spatial" for kind, _, _ in sizes)
    has_space |= any(value >= _IMAGE for _, value in _input_literals(tree))
    space = _spatial_limit(reduction, sizes)
    if not has_space:
        sizes = [(_batch_or_width(kind, value, sizes), node, value) for kind, node, value in sizes]
    batch = reduction.batch if has_space else max(reduction.batch, _BATCH_WITHOUT_SPACE)
    cut: dict[Kind, Callable[[int], int]] = {
        "batch": lambda value: min(value, batch),
        "spatial": lambda value: _halved(value, space),
        "features": lambda value: _halved(value, reduction.features),
        "groups": lambda value: min(value, _GROUPS_AT_MOST) if reduction.features else value,
    }
    edits: list[tuple[ast.expr, str]] = []
    for kind, node, value in sizes:
        new = _mapped(value, cut[kind])
        if new != value and all(node is not edited for edited, _ in edits):
            edits.append((node, repr(new)))
    if reduction.literals:
        edits += [
            (node, repr(new))
            for node, value in _input_literals(tree)
            if (new := _halved(value, space)) != value
        ]
    return replace_spans(source, edits)


def _spatial_limit(reduction: Reduction, sizes: list[tuple[Kind, ast.expr, Any]]) -> int | None:
    """Half as long where there are three of them: a volume costs what its cube costs."""
    if reduction.spatial is None:
        return None
    long = [value for kind, _, value in sizes if kind == "spatial" and value != _small(value)]
    return reduction.spatial // 2 if len(long) >= 3 else reduction.spatial


def _small(value: Any) -> Any:
    return _mapped(value, lambda size: min(size, 8))


def _batch_or_width(kind: Kind, value: Any, sizes: list[tuple[Kind, ast.expr, Any]]) -> Kind:
    """A batch that is as long as the rows may have to stay so (targets that broadcast)."""
    widths = [other for what, _, other in sizes if what == "features"]
    is_width = kind == "batch" and any(value == width or (value,) == width for width in widths)
    return "features" if is_width else kind


def _halved(value: int, limit: int | None) -> int:
    """Halved until it fits; an odd size stays odd."""
    if limit is None or value <= limit:
        return value
    small = value
    while small > limit:
        small //= 2
    return small | (value & 1)


def _mapped(value: Any, cut: Callable[[int], int]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, cut) for item in value)
    return cut(value) if type(value) is int and value > 0 else value


def _sizes(tree: ast.Module) -> Iterator[tuple[Kind, ast.expr, Any]]:
    """Kind, place and value of every top-level constant made of integers."""
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        value = statement.value
        pairs: list[tuple[ast.expr, ast.expr]] = [(name, value) for name in statement.targets]
        target = statement.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for name, node in pairs:
            if isinstance(name, ast.Name):
                constant = _constant(node)
                if constant is not None:
                    yield _kind(name.id, constant), node, constant


def _kind(name: str, value: Any) -> Kind:
    words = set(name.lower().split("_"))
    if words & _GROUPS:
        return "groups"
    if words & _BATCH:
        return "batch"
    is_image_shape = "shape" in words and isinstance(value, list | tuple) and len(value) > 1
    if words & _SPATIAL or is_image_shape:
        return "spatial"
    return "features"


def _constant(node: ast.expr) -> Any:
    """Value of an expression of integers, products, sums, lists and tuples; None for others."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.List | ast.Tuple):
        items = [_constant(item) for item in node.elts]
        if None in items:
            return None
        return items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.BinOp):
        left, right = _constant(node.left), _constant(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Mult) and (type(left) is int or type(right) is int):
            return left * right
        if type(left) is int and type(right) is int:
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left - right
    return None


def _input_literals(tree: ast.Module) -> Iterator[tuple[ast.Constant, int]]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "get_inputs":
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant) and type(node.value) is int:
                    yield node, node.value
