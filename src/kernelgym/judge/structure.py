"""Shape of an answer: containers, scalars and tensors must be what the reference returns.

Works on nodes of `kernelgym.sandbox.tree`, which are data: nothing of the candidate's types is ever
rebuilt here. Floats inside an answer are handed back for a comparison by tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelgym.sandbox.tree import Node

_PLAIN_TENSORS = ("Tensor", "Parameter")
_CONTAINERS = ("list", "tuple", "dict")


class StructureMismatch(Exception):
    """The answer has another structure; ``status`` is the code of the trial."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass
class Leaves:
    """What is left to compare once the containers agree."""

    tensors: list[tuple[str, int, int]] = field(default_factory=list)
    """Path, number in the reference's answer, number in the candidate's."""
    floats: list[tuple[str, complex, complex]] = field(default_factory=list)
    """Path, expected, actual."""


def match(expected: Node, actual: Node) -> Leaves:
    """Pair the leaves of two answers; raises `StructureMismatch` at the first difference."""
    leaves = Leaves()
    _match(expected, actual, "output", leaves)
    return leaves


def _match(expected: Node, actual: Node, path: str, leaves: Leaves) -> None:
    kind = expected["k"]
    if actual["k"] != kind:
        raise StructureMismatch(
            "structure_mismatch", f"{path}: expected {_name(expected)}, got {_name(actual)}"
        )
    if kind == "tensor":
        if actual.get("c") not in (*_PLAIN_TENSORS[:1], expected["c"]):
            raise StructureMismatch(
                "type_mismatch", f"{path}: expected a torch.Tensor, got a {actual.get('c')!s:.80}"
            )
        leaves.tensors.append((path, expected["i"], actual["i"]))
    elif kind in _CONTAINERS:
        _match_containers(expected, actual, path, leaves)
    elif kind in ("float", "complex"):
        leaves.floats.append((path, _number(expected), _number(actual)))
    elif expected.get("v") != actual.get("v"):
        raise StructureMismatch(
            "value_mismatch", f"{path}: expected {expected.get('v')!r}, got {actual.get('v')!s:.80}"
        )


def _match_containers(expected: Node, actual: Node, path: str, leaves: Leaves) -> None:
    wanted, got = expected["v"], actual["v"]
    if expected["k"] == "dict" and expected["n"] != actual["n"]:
        raise StructureMismatch(
            "structure_mismatch",
            f"{path}: expected keys {expected['n']}, got {str(actual['n'])[:200]}",
        )
    if len(wanted) != len(got):
        raise StructureMismatch(
            "structure_mismatch", f"{path}: expected {_name(expected)}, got {_name(actual)}"
        )
    names = expected["n"] if expected["k"] == "dict" else range(len(wanted))
    for name, left, right in zip(names, wanted, got, strict=True):
        _match(left, right, f"{path}[{name!r}]", leaves)


def _name(node: Node) -> str:
    kind = node["k"]
    if kind in _CONTAINERS:
        return f"a {kind} of {len(node['v'])}"
    if kind == "none":
        return "None"
    return f"a value of type {node.get('v')!s:.80}" if kind == "other" else f"a {kind}"


def _number(node: Node) -> complex:
    try:
        if node["k"] == "float":
            return complex(float.fromhex(node["v"]))
        return complex(*(float.fromhex(part) for part in node["v"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StructureMismatch("structure_mismatch", "malformed number") from error
