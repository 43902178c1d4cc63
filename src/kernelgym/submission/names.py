"""Full names of what a source refers to: ``F.relu`` after ``import torch.nn.functional as F``.

Imports anywhere in the file count, whichever branch they stand in. Not covered: names built at run
time (``getattr``, ``exec``), star imports, and rebinding a name to something else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping


def imported_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Local name to full dotted name for every import among the nodes."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
                else:
                    root = alias.name.partition(".")[0]
                    names[root] = root
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def dotted(node: ast.expr) -> str:
    """``a.b.c`` for a chain of attributes on a name, else an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    parts.append(node.id)
    return ".".join(reversed(parts))


def full_name(node: ast.expr, names: Mapping[str, str]) -> str:
    """Dotted name of an expression with its imports resolved, else an empty string."""
    name = dotted(node)
    root, dot, rest = name.partition(".")
    return names.get(root, root) + dot + rest
