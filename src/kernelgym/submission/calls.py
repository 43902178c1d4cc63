"""Where a source defines kernels, launches them, passes them on, and calls torch.

Pieces of `kernelgym.submission.static`, each a pass over the syntax tree. A launch is a subscript
of a kernel (``kernel[grid]``) or ``kernel.run(...)``, also through a simple alias
(``self.kernel = kernel``, ``tuned = triton.autotune(...)(kernel)``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelgym.submission.names import dotted, full_name
from kernelgym.submission.operators import (
    OperatorKind,
    is_compute_method,
    is_torch_compute,
    kind_of,
)
from kernelgym.submission.reach import FunctionNode

_JIT_NAMES = frozenset(
    {"triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit", "triton.experimental.gluon.jit"}
)


@dataclass(frozen=True)
class KernelDefinition:
    """A function made into a kernel by a decorator, or by ``name = triton.jit(function)``."""

    name: str
    node: FunctionNode
    decorators: tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """A place in the source: what is used there, and in which function."""

    name: str
    line: int
    function: str
    kind: OperatorKind = "other"


Nodes = list[tuple[ast.AST, str]]
"""Every node of a source with the qualified name of the function or class around it, in order."""


def walk_with_function(tree: ast.Module, limit: int) -> Nodes | None:
    """The nodes of a tree; None when there are more than ``limit``."""
    found: Nodes = []
    pending: Nodes = [(node, "") for node in tree.body]
    while pending:
        node, function = pending.pop()
        found.append((node, function))
        if len(found) > limit:
            return None
        if isinstance(node, FunctionNode | ast.ClassDef):
            outside: list[ast.expr] = [*node.decorator_list]
            if isinstance(node, FunctionNode):
                outside += node.args.defaults
            pending.extend((child, function) for child in outside)
            inner = f"{function}.{node.name}" if function else node.name
            pending.extend((child, inner) for child in node.body)
        else:
            pending.extend((child, function) for child in ast.iter_child_nodes(node))
    return sorted(found, key=lambda item: getattr(item[0], "lineno", 0))


def kernel_definitions(nodes: Nodes, names: Mapping[str, str]) -> list[KernelDefinition]:
    """Kernels and device functions, in source order."""
    functions = {node.name: node for node, _ in nodes if isinstance(node, FunctionNode)}
    found = []
    for node, _ in nodes:
        if isinstance(node, FunctionNode):
            decorators = tuple(_decorator_name(item, names) for item in node.decorator_list)
            if _JIT_NAMES & set(decorators):
                found.append(KernelDefinition(node.name, node, decorators))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call, target = node.value, dotted(node.targets[0])
            argument = dotted(call.args[0]) if call.args else ""
            if full_name(call.func, names) in _JIT_NAMES and argument in functions and target:
                found.append(KernelDefinition(target, functions[argument], ("triton.jit",)))
    return sorted(found, key=lambda item: item.node.lineno)


def _decorator_name(node: ast.expr, names: Mapping[str, str]) -> str:
    return full_name(node.func if isinstance(node, ast.Call) else node, names)


def device_callers(kernels: list[KernelDefinition]) -> dict[str, set[str]]:
    """Kernel name to the kernels whose body mentions it."""
    names = {kernel.name for kernel in kernels}
    callers: dict[str, set[str]] = {}
    for kernel in kernels:
        for statement in kernel.node.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and node.id in names and node.id != kernel.name:
                    callers.setdefault(node.id, set()).add(kernel.name)
    return callers


def kernel_aliases(nodes: Nodes, kernels: set[str]) -> dict[str, str]:
    """Names (last part: ``self.k`` is ``k``) that stand for a kernel."""
    aliases = {name: name for name in kernels}
    for node, _ in nodes:
        if isinstance(node, ast.Assign):
            kernel = _aliased(node.value, kernels)
            for target in node.targets:
                name = dotted(target).rpartition(".")[2]
                if kernel and name:
                    aliases[name] = kernel
    return aliases


def _aliased(value: ast.expr, kernels: set[str]) -> str:
    """The kernel that an assigned value is, or wraps (``triton.autotune(...)(kernel)``)."""
    if isinstance(value, ast.Name) and value.id in kernels:
        return value.id
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Call | ast.Attribute):
        wraps = [dotted(argument) for argument in value.args]
        decorates = isinstance(value.func, ast.Call) or dotted(value.func).endswith("wrap_triton")
        if decorates and len(wraps) == 1 and wraps[0] in kernels:
            return wraps[0]
    return ""


def launch_sites(nodes: Nodes, aliases: Mapping[str, str]) -> list[Site]:
    """Every ``kernel[grid]`` and ``kernel.run(...)`` outside other kernels' bodies."""
    found = []
    for node, function in nodes:
        target: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            target = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value if node.func.attr == "run" else None
        if target is None or _inside(function, aliases):
            continue
        kernel = aliases.get(dotted(target).rpartition(".")[2])
        if kernel is not None and isinstance(node, ast.expr):
            found.append(Site(kernel, node.lineno, function))
    return found


def _inside(function: str, kernels: Mapping[str, str] | set[str]) -> bool:
    return function.rpartition(".")[2] in kernels


def passed_on(nodes: Nodes, kernels: set[str], live: set[str]) -> set[str]:
    """Kernels that live code hands to something else, which may launch them unseen."""
    skipped: set[int] = set()
    found: set[str] = set()
    for node, _ in nodes:
        if isinstance(node, ast.Subscript | ast.Attribute):
            skipped.add(id(node.value))
        elif isinstance(node, ast.Assign) and _aliased(node.value, kernels):
            skipped |= {id(child) for child in ast.walk(node.value)}
        elif isinstance(node, ast.Call):
            skipped.add(id(node.func))
    for node, function in nodes:
        if not isinstance(node, ast.Name) or node.id not in kernels or id(node) in skipped:
            continue
        if isinstance(node.ctx, ast.Load) and not _inside(function, kernels):
            found |= {node.id} if function in live else set()
    return found


def torch_sites(nodes: Nodes, names: Mapping[str, str], kernels: set[str]) -> Iterator[Site]:
    """Computations left to torch, outside kernels; the caller picks the live functions."""
    modules = _module_attributes(nodes, names)
    for node, function in nodes:
        if _inside(function, kernels):
            continue
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield Site("@", node.lineno, function, "matmul")
        elif isinstance(node, ast.Call):
            name, kind = _called(node, names, modules)
            if name:
                yield Site(name, node.lineno, function, kind)


def _called(
    node: ast.Call, names: Mapping[str, str], modules: Mapping[str, tuple[str, OperatorKind]]
) -> tuple[str, OperatorKind]:
    name = full_name(node.func, names)
    if is_torch_compute(name):
        return name, kind_of(name)
    if name.rpartition(".")[2] in modules and (name.startswith("self.") or "." not in name):
        return modules[name.rpartition(".")[2]]
    if isinstance(node.func, ast.Attribute) and is_compute_method(node.func.attr):
        root = dotted(node.func).partition(".")[0]
        if root not in names:
            return f".{node.func.attr}", kind_of(node.func.attr)
    return "", "other"


def _module_attributes(
    nodes: Nodes, names: Mapping[str, str]
) -> dict[str, tuple[str, OperatorKind]]:
    """``self.x = nn.Something(...)``: attribute to full name and kind; also loops over them."""
    found: dict[str, tuple[str, OperatorKind]] = {}
    loops: list[tuple[str, str]] = []
    for node, _ in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name = full_name(node.value.func, names)
            target = dotted(node.targets[0])
            is_module = name.startswith("torch.nn.") and not name.endswith(
                (".Parameter", ".Buffer")
            )
            if is_module and target.startswith("self."):
                found[target.removeprefix("self.")] = (name, _module_kind(node.value, names))
        elif isinstance(node, ast.For) and dotted(node.iter).startswith("self."):
            loops.append((dotted(node.target), dotted(node.iter).removeprefix("self.")))
    found.update({item: found[module] for item, module in loops if item and module in found})
    return found


def _module_kind(call: ast.Call, names: Mapping[str, str]) -> OperatorKind:
    """Kind of a module, or of the first telling module inside a container."""
    kinds = [
        kind_of(full_name(node.func, names))
        for node in ast.walk(call)
        if isinstance(node, ast.Call)
    ]
    return next((kind for kind in kinds if kind != "other"), "other")
