"""A candidate's source with the bodies of its kernels taken out, everything else as it was.

What such a source computes, it computes without kernels of its own. Its functions keep their names,
arguments and decorators, so that the code round them notices nothing. Works on the syntax tree;
comments and line numbers are lost.

Functions that somebody names are taken for kernels, too, whatever their decorators look like. Not
covered: kernels that the tree does not show at all (text that is executed). `Blanked.kernels` says
which were found.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Set
from dataclasses import dataclass

from kernelgym.submission import calls
from kernelgym.submission.names import imported_names
from kernelgym.submission.static import MAX_ANALYSED_BYTES, MAX_NODES


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
    if len(source.encode(errors="replace")) > MAX_ANALYSED_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = calls.walk_with_function(tree, MAX_NODES)
    if nodes is None:
        return None
    found = calls.kernel_definitions(nodes, imported_names(node for node, _ in nodes))
    bodies = [definition.node for definition in found]
    bodies += [
        node for node, _ in nodes if isinstance(node, ast.FunctionDef) and node.name in known
    ]
    for node in bodies:
        node.body = [ast.Pass()]
    if not bodies:
        return None
    names = frozenset(node.name for node in bodies)
    try:
        return Blanked(ast.unparse(ast.fix_missing_locations(tree)), names)
    except RecursionError:  # nested more deeply than these walk
        return None
