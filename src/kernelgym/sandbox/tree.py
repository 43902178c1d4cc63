"""Nested arguments and results as plain data: containers and scalars as JSON, tensors by number.

A node is a dict with ``k`` (kind) and what the kind needs. Trees from a candidate are claims:
`check` bounds their depth and size and refuses anything malformed before the judge looks at them.
"""

from __future__ import annotations

from typing import Any

import torch

Node = dict[str, Any]

MAX_DEPTH = 32
MAX_NODES = 20_000
MAX_TEXT = 100_000
"""Longest string that is passed on."""
MAX_BITS = 2_048
"""Largest integer that is passed on."""
_SCALARS: dict[type, str] = {bool: "bool", int: "int", str: "str"}


def flatten(value: object) -> tuple[Node, list[torch.Tensor]]:
    """Split nested lists, tuples, dicts and scalars into a node and its tensors, in order.

    Anything else becomes a node of kind ``other`` with the name of its type: fit to be reported,
    not to be rebuilt.
    """
    tensors: list[torch.Tensor] = []
    return _flatten(value, tensors, 0), tensors


def _flatten(value: object, tensors: list[torch.Tensor], depth: int) -> Node:
    if depth > MAX_DEPTH:
        return {"k": "other", "v": "nested too deeply"}
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"k": "tensor", "i": len(tensors) - 1, "c": type(value).__name__}
    if isinstance(value, dict):
        names = list(value)
        if not all(isinstance(name, str | int) for name in names):
            return {"k": "other", "v": "dict with keys that are not strings or integers"}
        return {
            "k": "dict",
            "n": names,
            "v": [_flatten(item, tensors, depth + 1) for item in value.values()],
        }
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {"k": kind, "v": [_flatten(item, tensors, depth + 1) for item in value]}
    return _scalar(value)


def _scalar(value: object) -> Node:
    if value is None:
        return {"k": "none"}
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return {"k": "other", "v": "a long string"}
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return {"k": "other", "v": "a huge integer"}
    if type(value) in _SCALARS:
        return {"k": _SCALARS[type(value)], "v": value}
    if isinstance(value, float):
        return {"k": "float", "v": value.hex()}
    if isinstance(value, complex):
        return {"k": "complex", "v": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, torch.dtype):
        return {"k": "dtype", "v": str(value).removeprefix("torch.")}
    return {"k": "other", "v": type(value).__qualname__[:100]}


def unflatten(node: Node, tensors: list[torch.Tensor]) -> Any:
    """Rebuild what `flatten` split; raises ``ValueError`` for kind ``other`` or a bad node."""
    kind, value = node["k"], node.get("v")
    if kind == "tensor":
        return tensors[node["i"]]
    if kind in ("list", "tuple"):
        items = [unflatten(item, tensors) for item in node["v"]]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        items = [unflatten(item, tensors) for item in node["v"]]
        return dict(zip(node["n"], items, strict=True))
    if kind == "none":
        return None
    if kind in ("bool", "int", "str"):
        return value
    if kind == "float":
        return float.fromhex(str(value))
    if kind == "complex":
        return complex(*(float.fromhex(part) for part in node["v"]))
    if kind == "dtype":
        return getattr(torch, str(value))
    raise ValueError(f"a value of type {value} cannot be passed between processes")


def check(node: object, tensors: int) -> Node:
    """Validate a node from outside; raises ``ValueError``. ``tensors`` = how many exist."""
    budget = [MAX_NODES]
    _check(node, tensors, 0, budget)
    assert isinstance(node, dict)
    return node


def _check(node: object, tensors: int, depth: int, budget: list[int]) -> None:
    budget[0] -= 1
    if depth > MAX_DEPTH + 1 or budget[0] < 0 or not isinstance(node, dict):
        raise ValueError("malformed tree")
    kind, value = node.get("k"), node.get("v")
    if kind == "tensor":
        index = node.get("i")
        if type(index) is not int or not 0 <= index < tensors:
            raise ValueError("tree names a tensor that does not exist")
    elif kind in ("list", "tuple", "dict"):
        if not isinstance(value, list):
            raise ValueError("malformed container")
        if kind == "dict" and not _are_names(node.get("n"), len(value)):
            raise ValueError("malformed dict")
        for item in value:
            _check(item, tensors, depth + 1, budget)
    elif kind not in ("none", "bool", "int", "str", "float", "complex", "dtype", "other"):
        raise ValueError("unknown kind of node")


def _are_names(names: object, count: int) -> bool:
    return (
        isinstance(names, list)
        and len(names) == count
        and all(isinstance(name, str | int) for name in names)
    )
