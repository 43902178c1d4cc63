"""What a benchmark already asks: the same class under other names, or the same operator graph.

Two looks at every file of the benchmark that defines a module. Its syntax tree, with names replaced
by the order of their appearance and numbers and docstrings dropped; and its operator graph
(`graph`). A synthetic task that agrees in either is contaminated. A file that cannot be run on the
``meta`` device is compared by its tree alone and counted.

Reading a benchmark runs its modules in this process: call `read_benchmark` from a child.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelgym.errors import UsageError

KEPT_NAMES = frozenset({"self", "super", "nn", "torch", "F", "Model", "forward", "__init__"})
GRAPH_LIMIT_S = 5.0
"""Processor time for one file of a benchmark: a loop over a long sequence is not worth more."""


@dataclass(frozen=True)
class Benchmark:
    """Fingerprints of a benchmark."""

    trees: frozenset[str]
    graphs: frozenset[str]
    files: int
    without_graph: tuple[str, ...]
    """Files that were compared by their tree alone."""

    def contains(self, tree: str, graph: str) -> bool:
        """Whether a task with these fingerprints is one of the benchmark's."""
        return tree in self.trees or graph in self.graphs


NOTHING = Benchmark(frozenset(), frozenset(), 0, ())


class _Normalise(ast.NodeTransformer):
    """Names by order of appearance, numbers as zero, no docstrings or annotations."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def _name(self, name: str) -> str:
        if name in KEPT_NAMES:
            return name
        return self._names.setdefault(name, f"v{len(self._names)}")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._name(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg, node.annotation = self._name(node.arg), None
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            node.attr = self._name(node.attr)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            node.value = 0
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        _drop_docstring(node)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            node.args = []
        self.generic_visit(node)
        return node


def tree_hash(source: str, entry_point: str = "Model") -> str:
    """Fingerprint of a class's syntax tree; empty when the source does not define it."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == entry_point:
            node.name = "Model"
            _drop_docstring(node)
            text = ast.dump(_Normalise().visit(node))
            return hashlib.sha256(text.encode()).hexdigest()[:24]
    return ""


def _drop_docstring(node: ast.ClassDef | ast.FunctionDef) -> None:
    if ast.get_docstring(node) is not None:
        node.body = node.body[1:] or [ast.Pass()]


def benchmark_files(directory: Path) -> list[Path]:
    """Files of a benchmark that may hold a task."""
    if not directory.is_dir():
        raise UsageError(f"no such directory: the benchmark {directory}", hint="ls")
    return sorted(directory.rglob("*.py"))


def read_benchmark(directory: Path, files: Iterable[Path]) -> Benchmark:
    """Fingerprints of the modules in these files."""
    from kernelgym.errors import TaskError
    from kernelgym.schema import Task
    from kernelgym.tasks.synth.examine import graph_of

    trees, graphs, without = set(), set(), []
    count = 0
    for path in files:
        try:
            source = path.read_text(encoding="utf-8")
            tree = tree_hash(source)
        except (OSError, ValueError, SyntaxError):
            continue
        if not tree or "get_inputs" not in source:
            continue
        count += 1
        trees.add(tree)
        try:
            task = Task(name=path.stem[:200], reference=source)
            graphs.add(graph_of(task, GRAPH_LIMIT_S)[0])
        except TaskError:
            without.append(str(path.relative_to(directory)))
    return Benchmark(frozenset(trees), frozenset(graphs), count, tuple(without))


def joined(parts: Iterable[Benchmark]) -> Benchmark:
    """Fingerprints of several parts of one benchmark."""
    parts = list(parts)
    return Benchmark(
        frozenset().union(*(part.trees for part in parts)),
        frozenset().union(*(part.graphs for part in parts)),
        sum(part.files for part in parts),
        tuple(sorted(name for part in parts for name in part.without_graph)),
    )
