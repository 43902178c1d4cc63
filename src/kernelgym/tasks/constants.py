"""Module-level constants of a source: read them, and write others in their place.

Only assignments of one plain name to a literal at the top level count. The rest of the text stays
as it is, byte for byte, so that line numbers keep their meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any


def constant_values(source: str) -> dict[str, Any]:
    """Name to value of every top-level assignment of a literal."""
    return {name: value for name, _, value in _constants(source)}


def with_constants(source: str, values: Mapping[str, Any]) -> str:
    """The source with some constants replaced; raises ``KeyError`` for one that it lacks."""
    places = {name: node for name, node, _ in _constants(source)}
    edits = [(places[name], repr(value)) for name, value in values.items()]
    return replace_spans(source, edits)


def replace_spans(source: str, edits: list[tuple[ast.expr, str]]) -> str:
    """The source with the text of each expression replaced; expressions must not overlap."""
    lines = [line.encode() for line in source.split("\n")]
    for node, text in sorted(edits, key=lambda e: (e[0].lineno, e[0].col_offset), reverse=True):
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        first, last = node.lineno - 1, end_line - 1
        joined = lines[first][: node.col_offset] + text.encode() + lines[last][end:]
        lines[first : last + 1] = [joined]
    return b"\n".join(lines).decode()


def _constants(source: str) -> list[tuple[str, ast.expr, Any]]:
    found = []
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            try:
                found.append((target.id, statement.value, ast.literal_eval(statement.value)))
            except ValueError:
                continue
    return found
