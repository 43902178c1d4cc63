"""Whether a kernel was copied: its syntax tree without names, against those of the training data.

Two kernels are the same when they differ in names, comments and layout only. Numbers count: another
block size makes another kernel only where it stands in the kernel itself. Imports no torch.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from drkernel import prompts

_COMPILERS = ("jit", "njit", "vectorize", "guvectorize", "autotune")


def kernel_hashes(source: str) -> list[str]:
    """A hash for each kernel of a module; none where it is not valid Python.

    >>> one = "@triton.jit\\ndef f(a):\\n    b = a * 2\\n    return b"
    >>> other = "@triton.jit\\ndef g(x):  # twice\\n    y = x * 2\\n    return y"
    >>> kernel_hashes(one) == kernel_hashes(other), len(kernel_hashes(one))
    (True, 1)
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [_hash(node) for node in found if _is_kernel(node)]


def _is_kernel(node: ast.FunctionDef) -> bool:
    names = [_last_name(decorator) for decorator in node.decorator_list]
    return any(name in _COMPILERS for name in names)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _hash(node: ast.FunctionDef) -> str:
    own = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            own.add(inner.id)
    text = ast.dump(_Renamer(own).visit(ast.parse(ast.unparse(node))))
    return hashlib.sha256(text.encode()).hexdigest()


class _Renamer(ast.NodeTransformer):
    """Own names become v0, v1, ... in the order they are met; names of libraries stay."""

    def __init__(self, own: set[str]) -> None:
        self._own = own
        self._new: dict[str, str] = {}

    def _name(self, old: str) -> str:
        return self._new.setdefault(old, f"v{len(self._new)}") if old in self._own else old

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Its name says nothing."""
        node.name = "kernel"
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """A parameter."""
        node.arg = self._name(node.arg)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A variable."""
        node.id = self._name(node.id)
        return node


def known_kernels(sources: Iterable[str]) -> set[str]:
    """Hashes of every kernel in these modules."""
    return {found for source in sources for found in kernel_hashes(source)}


def training_modules(files: Iterable[Path]) -> Iterator[str]:
    """Every module in the chats of these files."""
    for path in files:
        with path.open(encoding="utf-8") as file:
            for line in file:
                for message in json.loads(line)["messages"]:
                    if message["role"] == "assistant":
                        yield prompts.extract(message["content"]).code or ""
