"""A candidate's source with the bodies of its kernels taken out, everything else as it was.

What such a source computes, it computes without kernels of its own. Its functions keep their names,
arguments and decorators, so that the code round them notices nothing. Works on the syntax tree;
comments and line numbers are lost.

Not covered: kernels that the tree does not show as such (built at run time, or through a decorator
under another name). `Blanked.kernels` says which were found.
"""

from __future__ import annotations

import ast
import warnings
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


def blank(source: str) -> Blanked | None:
    """Take the bodies out; None when there is no kernel, or nothing that can be parsed."""
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
    for definition in found:
        definition.node.body = [ast.Pass()]
    if not found:
        return None
    names = frozenset(definition.node.name for definition in found)
    return Blanked(ast.unparse(ast.fix_missing_locations(tree)), names)
