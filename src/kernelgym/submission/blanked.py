"""A candidate's source with the bodies of its kernels taken out, everything else as it was.

What such a source computes, it computes without kernels of its own. Its functions keep their names,
arguments and decorators, so that the code round them notices nothing. Kernels are found in the
syntax tree, in the encoding that the source itself names; their bodies are cut out of the text, so
that neither length nor depth of the rest matters.

Functions that somebody names are taken for kernels, too, whatever their decorators look like;
unless the source's other kernels show its language and the function is plain Python: it mentions
torch or ``self``, or a function that does. No compiler would take it, so whoever names it is lying.

Not covered: kernels that the tree does not show at all (text that is executed); plain Python that
reaches torch by other ways than names.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import warnings
from collections.abc import Iterable, Set
from dataclasses import dataclass

from kernelgym.submission import calls
from kernelgym.submission.names import full_name, imported_names
from kernelgym.submission.reach import FunctionNode

_NUMBA = frozenset({"numba.njit", "numba.jit", "numba.vectorize", "numba.guvectorize"})
_HEADER = "# -*- coding: utf-8 -*-\n"
_DEEP = 2000
"""Python's limit while parsing: deeper than what a candidate's process could compile."""


@dataclass(frozen=True)
class Blanked:
    """The source, and whose bodies are gone."""

    source: str
    kernels: frozenset[str]
    """Names of the functions."""


def blank(source: str, known: Set[str] = frozenset()) -> Blanked | None:
    """Take the bodies out; None when there is no kernel, or nothing that can be parsed.

    ``known``: names of functions that were seen to be launched.
    """
    try:
        text = importlib.util.decode_source(source.encode())
        tree = _parsed(text)
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return None
    statements = _statements(tree)
    names = imported_names(statements)
    found = calls.kernel_definitions([(node, "") for node in statements], names)
    bodies = {id(definition.node): definition.node for definition in found}
    functions = [node for node in statements if isinstance(node, FunctionNode)]
    named = [node for node in functions if node.name in known and id(node) not in bodies]
    compiled = {id(node) for node in functions if _is_numbas(node, names)}
    if bodies or compiled:
        python = _plain_python(functions, names) - compiled
        named = [node for node in named if id(node) not in python]
    bodies |= {id(node): node for node in named}
    if not bodies:
        return None
    kernels = frozenset(node.name for node in bodies.values())
    return Blanked(_cut(text, bodies.values()), kernels)


def _parsed(text: str) -> ast.Module:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEP))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    finally:
        sys.setrecursionlimit(limit)


def _statements(tree: ast.Module) -> list[ast.stmt]:
    """All statements, in order, without the expressions in them."""
    found: list[ast.stmt] = []
    pending: list[ast.AST] = list(reversed(tree.body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            found.append(node)
        inner: list[ast.AST] = []
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            value = getattr(node, field, None)
            inner += value if isinstance(value, list) else []
        pending += reversed(inner)
    return found


def _is_numbas(node: FunctionNode, names: dict[str, str]) -> bool:
    return any(
        full_name(item.func if isinstance(item, ast.Call) else item, names) in _NUMBA
        for item in node.decorator_list
    )


def _plain_python(functions: Iterable[FunctionNode], names: dict[str, str]) -> set[int]:
    """Functions, by id, that no compiler of kernels would take."""
    mentions = {id(node): _mentioned(node, names) for node in functions}
    python = {id(node) for node in functions if mentions[id(node)] & {"torch", "self"}}
    while True:
        # A method is no name that other functions could mention.
        known = {n.name for n in functions if id(n) in python and "self" not in mentions[id(n)]}
        more = {which for which, used in mentions.items() if used & known} - python
        if not more:
            return python
        python |= more


def _mentioned(function: FunctionNode, names: dict[str, str]) -> set[str]:
    """Names in a body, imported ones also by the package that they come from."""
    used: set[str] = set()
    pending: list[ast.AST] = list(function.body)
    while pending:
        item = pending.pop()
        if isinstance(item, ast.Name):
            used |= {item.id, names.get(item.id, item.id).partition(".")[0]}
        pending += ast.iter_child_nodes(item)
    return used


def _cut(text: str, functions: Iterable[FunctionNode]) -> str:
    """The text with ``pass`` in the place of these bodies."""
    lines = [line.encode() for line in text.split("\n")]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    data = b"\n".join(lines)
    spans = sorted(_span(node, starts) for node in functions)
    parts, end = [], 0
    for first, last in spans:
        if first >= end:  # else it lies in a body that is gone
            parts += [data[end:first], b"pass"]
            end = last
    blanked = b"".join([*parts, data[end:]]).decode()
    return _HEADER + blanked if b"coding" in b"".join(lines[:2]) else blanked


def _span(node: FunctionNode, starts: list[int]) -> tuple[int, int]:
    """Where the body lies: its first byte, and the first behind it."""
    first, last = node.body[0], node.body[-1]
    decorators = getattr(first, "decorator_list", [])
    line = min([first.lineno, *(item.lineno for item in decorators)])
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    return starts[line - 1] + first.col_offset, starts[last.end_lineno - 1] + last.end_col_offset
