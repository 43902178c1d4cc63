"""Which functions of a source the entry point can reach, by the names they mention.

The answer errs towards "reachable": a function counts as soon as its name occurs, as a name or an
attribute, in module-level code or in a function that is reachable itself. So what is called
unreachable is never mentioned by live code. Not covered: names built at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Scope:
    """A function, or a class body, and the names that it mentions itself."""

    name: str
    """Qualified name, ``Class.method`` or ``outer.inner``."""
    node: ast.stmt
    mentions: set[str] = field(default_factory=set)
    is_class: bool = False
    owner: Scope | None = None
    """The class that a method belongs to."""


def scopes(tree: ast.Module) -> tuple[Scope, list[Scope]]:
    """The module's own scope, and every function and class in it, outer before inner."""
    module = Scope("", ast.Pass())
    found: list[Scope] = []
    pending: list[tuple[ast.AST, Scope]] = [(node, module) for node in tree.body]
    while pending:
        node, scope = pending.pop()
        if isinstance(node, FunctionNode | ast.ClassDef):
            inner = _open(node, scope)
            found.append(inner)
            _mention_header(node, scope, inner)
            pending.extend((child, inner) for child in node.body)
            continue
        scope.mentions |= set(_own_names(node))
        pending.extend((child, scope) for child in ast.iter_child_nodes(node))
    return module, found


def _open(node: FunctionNode | ast.ClassDef, scope: Scope) -> Scope:
    name = f"{scope.name}.{node.name}" if scope.name else node.name
    owner = scope if scope.is_class else None
    return Scope(name, node, is_class=isinstance(node, ast.ClassDef), owner=owner)


def _mention_header(node: FunctionNode | ast.ClassDef, outer: Scope, inner: Scope) -> None:
    """Decorators and defaults run where the function is defined; bases matter with the class."""
    if isinstance(node, ast.ClassDef):
        for base in node.bases:
            inner.mentions |= set(_all_names(base))
        return
    for expression in (*node.decorator_list, *node.args.defaults):
        outer.mentions |= set(_all_names(expression))


def _own_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr


def _all_names(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        yield from _own_names(child)


def reachable(tree: ast.Module, entry_point: str) -> set[str]:
    """Qualified names of the functions and classes that ``entry_point`` can reach."""
    module, found = scopes(tree)
    by_short: dict[str, list[Scope]] = {}
    methods: dict[str, list[Scope]] = {}
    for scope in found:
        by_short.setdefault(_short(scope), []).append(scope)
        if scope.owner is not None:
            methods.setdefault(scope.owner.name, []).append(scope)
    live: set[str] = set()
    mentioned: set[str] = set()
    pending = [module, *by_short.get(entry_point, ())]
    while pending:
        scope = pending.pop()
        if scope.name in live:
            continue
        live.add(scope.name)
        new = scope.mentions - mentioned
        mentioned |= new
        woken = [item for name in new for item in by_short.get(name, ())] + methods.get(
            scope.name, []
        )
        pending.extend(item for item in woken if _is_live(item, live, mentioned))
    return live


def _short(scope: Scope) -> str:
    return scope.name.rpartition(".")[2]


def _is_live(scope: Scope, live: set[str], mentioned: set[str]) -> bool:
    """A method lives with its class when it is mentioned, or called by Python or torch itself."""
    name = _short(scope)
    if scope.owner is None:
        return name in mentioned
    called_by_others = name.startswith("__") or name in {"forward", "backward", "setup_context"}
    return scope.owner.name in live and (called_by_others or name in mentioned)
