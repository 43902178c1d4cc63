"""A reference module as a list of steps: one operation each, on named values.

``x = F.gelu(self.fc(x)) + y`` becomes three steps. Each keeps its torch text, so that any step can
stay as it is, and its `Meaning` where the teacher could compute it in a kernel. Straight-line
``forward`` methods only; for anything else `read_reference` gives None.
"""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass, field

from drkernel.collect.teacher.meaning import Meaning, meaning_of_call, meaning_of_operator

_NOT_TENSORS = ("shape", "ndim", "dtype", "device")
_NOT_TENSOR_CALLS = ("size", "dim", "numel", "len", "float", "int")


@dataclass(frozen=True)
class Step:
    """One line of ``forward``."""

    targets: tuple[str, ...]
    """Names it defines; one, but for unpacking."""
    text: str
    """Its right-hand side in torch."""
    reads: tuple[str, ...]
    """Values it reads, names of earlier targets or arguments."""
    meaning: Meaning | None = None
    """What it computes, where the teacher knows."""


@dataclass(frozen=True)
class Reference:
    """What the teacher understood of a reference."""

    init: str
    """Source of ``__init__``, or empty."""
    arguments: tuple[str, ...]
    """Arguments of ``forward``."""
    steps: tuple[Step, ...]
    returned: str
    """Expression that ``forward`` returns, in terms of the steps' names."""
    imports: tuple[str, ...]
    """Import lines that the steps need."""
    columns: frozenset[str] = frozenset()
    """``self.NAME`` of parameters with one dimension."""
    channels: frozenset[str] = frozenset()
    """``self.NAME`` of parameters with one number a channel: shaped (C, 1) or (C, 1, 1)."""
    constants: str = ""
    """Module-level constants that ``__init__`` or ``forward`` read."""


class _TooHard(Exception):
    """Control flow, or another thing that the teacher does not follow."""


def read_reference(source: str, entry_point: str = "Model") -> Reference | None:
    """Understand a reference; None where its ``forward`` is more than a list of operations."""
    try:
        module = ast.parse(source)
        cls = next(
            node
            for node in module.body
            if isinstance(node, ast.ClassDef) and node.name == entry_point
        )
        methods = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
        forward = methods["forward"]
        reader = _Reader(methods.get("__init__"), forward, _ranks(module))
        returned = reader.body(forward.body)
    except (SyntaxError, StopIteration, KeyError, _TooHard):
        return None
    init = methods.get("__init__")
    if set(methods) - {"__init__", "forward"}:
        return None  # helper methods: not followed
    return Reference(
        init=ast.unparse(init).replace(f"super({entry_point}, self)", "super()") if init else "",
        arguments=tuple(argument.arg for argument in forward.args.args[1:]),
        steps=tuple(reader.steps),
        returned=returned,
        imports=_imports(module),
        columns=frozenset(reader.columns),
        channels=frozenset(reader.channels),
        constants=_constants(module, [node for node in (init, forward) if node is not None]),
    )


def _imports(module: ast.Module) -> tuple[str, ...]:
    lines = [ast.unparse(n) for n in module.body if isinstance(n, ast.Import | ast.ImportFrom)]
    return tuple(line for line in lines if line not in ("import torch", "import torch.nn as nn"))


def _constants(module: ast.Module, used_by: list[ast.FunctionDef]) -> str:
    words = set()
    for function in used_by:
        local = {argument.arg for argument in function.args.args}
        words |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} - local
    kept = [
        ast.unparse(node)
        for node in module.body
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id in words for t in node.targets)
    ]
    return "\n".join(kept)


def _ranks(module: ast.Module) -> list[int | None]:
    """Dimensions of the tensors that ``get_inputs`` returns, where they can be read off."""
    maker = next(
        (n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == "get_inputs"), None
    )
    if maker is None:
        return []
    named: dict[str, ast.expr] = {}
    for node in maker.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named[node.targets[0].id] = node.value
    last = maker.body[-1]
    if not (isinstance(last, ast.Return) and isinstance(last.value, ast.List)):
        return []
    values = [named.get(e.id, e) if isinstance(e, ast.Name) else e for e in last.value.elts]
    return [tensor_rank(value) for value in values]


def tensor_rank(value: ast.expr) -> int | None:
    """Dimensions of what ``torch.randn(a, b)`` and its like make, looked for inside ``value``."""
    for node in ast.walk(value):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr in ("randn", "rand", "ones", "zeros", "empty"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Tuple | ast.List):
                return len(first.elts)
            return len(node.args) or None
    return None


@dataclass
class _Reader:
    """Flattens expressions into steps."""

    init: ast.FunctionDef | None
    forward: ast.FunctionDef
    input_ranks: list[int | None]
    steps: list[Step] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)
    channels: set[str] = field(default_factory=set)
    attributes: dict[str, ast.expr] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Python variables to the value that they hold now."""
    tensors: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)
    """Values that are shapes or numbers."""
    ranks: dict[str, int | None] = field(default_factory=dict)
    counter: int = 0

    def __post_init__(self) -> None:
        for node in ast.walk(self.init) if self.init is not None else ():
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                name = f"self.{node.targets[0].attr}"
                self.attributes[name] = node.value
                if _is_parameter(node.value):
                    self.tensors.add(name)
                    self.ranks[name] = tensor_rank(node.value)
                    if self.ranks[name] == 1:
                        self.columns.add(name)
                    elif _is_by_channel(node.value):
                        self.channels.add(name)
        arguments = [argument.arg for argument in self.forward.args.args[1:]]
        for index, name in enumerate(arguments):
            self.names[name] = name
            self.tensors.add(name)
            self.ranks[name] = self.input_ranks[index] if index < len(self.input_ranks) else None

    def body(self, statements: list[ast.stmt]) -> str:
        for statement in statements:
            if isinstance(statement, ast.Return) and statement.value is not None:
                value = statement.value
                if isinstance(value, ast.Tuple):
                    return ", ".join(self.value(part) for part in value.elts)
                return self.value(value)
            self.statement(statement)
        raise _TooHard

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            load = ast.Name(node.target.id, ast.Load())
            self.names[node.target.id] = self.value(ast.BinOp(load, node.op, node.value))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            self.assign(node.targets[0], node.value)
        else:
            raise _TooHard

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = self.value(value)
            return
        if not isinstance(target, ast.Tuple):
            raise _TooHard
        parts = [part.id for part in target.elts if isinstance(part, ast.Name)]
        if len(parts) != len(target.elts):
            raise _TooHard
        text, reads = self.flat(value)
        fresh = tuple(self.fresh() for _ in parts)
        self.steps.append(Step(fresh, text, reads))
        self.names.update(zip(parts, fresh, strict=True))
        (self.numbers if self.is_plain(value) else self.tensors).update(fresh)

    def fresh(self) -> str:
        self.counter += 1
        return f"v{self.counter}"

    def value(self, node: ast.expr) -> str:
        """The node as an operand: a name, ``self.NAME`` or a number."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Constant):
            return repr(node.value)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in self.attributes:
            return ast.unparse(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return ast.unparse(node)
        text, reads = self.flat(node)
        meaning = self.meaning(node, text)
        target = self.fresh()
        self.steps.append(Step((target,), text, reads, meaning))
        (self.numbers if self.is_plain(node) else self.tensors).add(target)
        rank = self.ranks.get(meaning.tensors[0]) if meaning is not None else None
        if meaning is not None and rank is not None:
            self.ranks[target] = rank if meaning.keeps else rank - 1
        return target

    def flat(self, node: ast.expr) -> tuple[str, tuple[str, ...]]:
        """Text of the node over operands, and the values among them."""
        flattened = _Flatten(self).visit(_copy(node))
        reads = {
            name.id
            for name in ast.walk(flattened)
            if isinstance(name, ast.Name) and name.id in {*self.names.values()} | self.tensors
        }
        return ast.unparse(flattened), tuple(sorted(reads))

    def meaning(self, node: ast.expr, text: str) -> Meaning | None:
        flat = ast.parse(text, mode="eval").body
        if isinstance(flat, ast.BinOp):
            found = meaning_of_operator(flat)
        elif isinstance(flat, ast.Call):
            found = meaning_of_call(flat, self.attributes, self.ranks)
        else:
            return None
        if found is None:
            return None
        numbers = tuple(operand for operand in found.operands if not self.is_tensor(operand))
        if len(numbers) == len(found.operands) or not all(self.is_number(o) for o in numbers):
            return None
        return dataclasses.replace(found, numbers=numbers)

    def is_plain(self, node: ast.expr) -> bool:
        """Whether the value is a shape or a number: arithmetic on such gives another one."""
        if isinstance(node, ast.BinOp):
            return self.is_plain(node.left) and self.is_plain(node.right)
        if isinstance(node, ast.UnaryOp):
            return self.is_plain(node.operand)
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id) in self.numbers
        return isinstance(node, ast.Constant) or _plain(node)

    def is_tensor(self, operand: str) -> bool:
        return operand in self.tensors or operand.count(".") == 2  # a submodule's parameter

    def is_number(self, operand: str) -> bool:
        """Written out, computed from shapes, or stored by the constructor."""
        if operand in self.numbers:
            return True
        try:
            float(operand)
        except ValueError:
            return isinstance(self.attributes.get(operand), ast.Name | ast.Constant)
        return True


def _copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _is_parameter(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).endswith("Parameter")


def _is_by_channel(value: ast.expr) -> bool:
    """Whether what ``torch.randn(C, 1, 1)`` makes has one number a channel."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.randn", "torch.rand"):
            sizes = [ast.unparse(size) for size in node.args]
            return len(sizes) > 1 and all(size == "1" for size in sizes[1:])
    return False


def _plain(node: ast.expr) -> bool:
    """Whether the value is a shape or a number rather than a tensor."""
    if isinstance(node, ast.Subscript):
        return _plain(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr in _NOT_TENSORS
    if isinstance(node, ast.Call):
        function = ast.unparse(node.func)
        if function.startswith("torch."):
            return False
        return function.rpartition(".")[2] in _NOT_TENSOR_CALLS
    return False


class _Flatten(ast.NodeTransformer):
    """Puts operands in the place of nested operations."""

    def __init__(self, reader: _Reader) -> None:
        self.reader = reader
        self.top = True

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.IfExp):
            raise _TooHard
        if self.top:
            self.top = False
            if isinstance(node, ast.Call):
                return self.call(node)
            return self.generic_visit(node)
        if isinstance(node, ast.Call | ast.BinOp | ast.Compare):
            return ast.parse(self.reader.value(node), mode="eval").body
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            return ast.Name(self.reader.names.get(node.id, node.id), ast.Load())
        return self.generic_visit(node)

    def call(self, node: ast.Call) -> ast.AST:
        """A call's function stays; the object of a method becomes an operand."""
        if isinstance(node.func, ast.Attribute):
            base = node.func.value
            if isinstance(base, ast.Call | ast.BinOp):
                node.func.value = ast.parse(self.reader.value(base), mode="eval").body
            elif not ast.unparse(base).startswith(("torch", "F", "nn", "self")):
                node.func.value = self.visit(base)  # type: ignore[assignment]
        node.args = [self.visit(argument) for argument in node.args]  # type: ignore[misc]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)  # type: ignore[assignment]
        return node
