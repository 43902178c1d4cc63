"""Which torch operations the teacher knows, and the arithmetic behind each.

Formulas are written with the functions of `drkernel.collect.teacher.dialect` (``MAX``, ``EXP``,
``WHERE``, ...) over ``a``, ``b``, ``c``, the operands in order, so that one table serves every
kernel language. Row operations run over the last dimension; for another one it is moved there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["element", "row", "matmul"]


@dataclass(frozen=True)
class Meaning:
    """What a step computes."""

    kind: Kind
    """``element``: by element. ``row``: along the last dimension. ``matmul``: a matrix product."""
    name: str
    """E.g. ``gelu``, ``softmax``, ``linear``."""
    operands: tuple[str, ...]
    """Tensors and numbers, in the order of the formula."""
    formula: str = ""
    """Of an element-wise one."""
    keeps: bool = True
    """Of a row operation: False when the last dimension goes away."""
    reduces: bool = False
    """Of a row operation: one number a row is left."""
    axis: str = ""
    """Of a row operation along another dimension than the last one: which."""
    numbers: tuple[str, ...] = ()
    """Operands that are Python numbers, written out or stored by the constructor."""

    @property
    def tensors(self) -> tuple[str, ...]:
        """Operands that are tensors."""
        return tuple(operand for operand in self.operands if operand not in self.numbers)


_SOFTPLUS = "(MAX(a, 0.0) + LOG(1.0 + EXP(-ABS(a))))"
UNARY: dict[str, str] = {
    "relu": "MAX(a, 0.0)",
    "gelu": "0.5 * a * (1.0 + ERF(a * 0.7071067811865476))",
    "gelu_tanh": "a * SIGMOID(1.5957691216057308 * (a + 0.044715 * a * a * a))",
    "silu": "a * SIGMOID(a)",
    "sigmoid": "SIGMOID(a)",
    "tanh": "2.0 * SIGMOID(2.0 * a) - 1.0",
    "elu": "WHERE(a > 0, a, EXP(MIN(a, 0.0)) - 1.0)",
    "selu": "1.0507009873554805 * WHERE(a > 0, a, 1.6732632423543772 * (EXP(MIN(a, 0.0)) - 1.0))",
    "softplus": _SOFTPLUS,
    "mish": f"a * (2.0 * SIGMOID(2.0 * {_SOFTPLUS}) - 1.0)",
    "hardswish": "a * MIN(MAX(a + 3.0, 0.0), 6.0) / 6.0",
    "hardsigmoid": "MIN(MAX(a / 6.0 + 0.5, 0.0), 1.0)",
    "hardtanh": "MIN(MAX(a, -1.0), 1.0)",
    "softsign": "a / (1.0 + ABS(a))",
    "logsigmoid": "MIN(a, 0.0) - LOG(1.0 + EXP(-ABS(a)))",
    "relu6": "MIN(MAX(a, 0.0), 6.0)",
    "tanhshrink": "a - (2.0 * SIGMOID(2.0 * a) - 1.0)",
    "abs": "ABS(a)",
    "square": "a * a",
    "sin": "SIN(a)",
    "cos": "COS(a)",
    "erf": "ERF(a)",
    "exp": "EXP(a)",
    "log": "LOG(a)",
    "expm1": "EXP(a) - 1.0",
    "sqrt": "SQRT(a)",
    "rsqrt": "1.0 / SQRT(a)",
    "sign": "WHERE(a > 0, 1.0, WHERE(a < 0, -1.0, 0.0))",
    "neg": "-a",
    "asinh": "WHERE(a < 0, -1.0, 1.0) * LOG(ABS(a) + SQRT(a * a + 1.0))",
}
BINARY: dict[str, str] = {
    "add": "a + b",
    "sub": "a - b",
    "mul": "a * b",
    "div": "a / b",
    "maximum": "MAX(a, b)",
    "minimum": "MIN(a, b)",
    "leaky_relu": "WHERE(a > 0, a, a * b)",
    "softshrink": "WHERE(a > b, a - b, WHERE(a < -b, a + b, 0.0))",
    "hardshrink": "WHERE(ABS(a) > b, a, 0.0)",
    "clamp_min": "MAX(a, b)",
    "clamp_max": "MIN(a, b)",
}
TERNARY: dict[str, str] = {
    "lerp": "a + c * (b - a)",
    "where": "WHERE(a != 0, b, c)",
    "masked_fill": "WHERE(b != 0, c, a)",
    "clamp": "MIN(MAX(a, b), c)",
}
ROWS: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "softmax": ((("e", "EXP(a - RMAX(a))"),), "e / RSUM(e)"),
    "log_softmax": ((("s", "a - RMAX(a)"),), "s - LOG(RSUM(EXP(s)))"),
    "logsumexp": ((("m", "RMAX(a)"),), "m + LOG(RSUM(EXP(a - m)))"),
    "mean": ((), "RSUM(a) / n"),
    "sum": ((), "RSUM(a)"),
    "amax": ((), "RMAX(a)"),
    "amin": ((), "-RMAX(-a)"),
    "std": ((("d", "a - RSUM(a) / n"),), "SQRT(RSUM(d * d) / (n - 1))"),
    "vector_norm": ((), "SQRT(RSUM(a * a))"),
    "normalize": ((), "a / MAX(SQRT(RSUM(a * a)), 1e-12)"),
    "layer_norm": ((("d", "a - RSUM(a) / n"),), "d / SQRT(RSUM(d * d) / n + 1e-05) * b + c"),
    "rms_norm": ((), "a / SQRT(RSUM(a * a) / n + 1.1920929e-07) * b"),
}
"""Row operations: named parts, then the value. ``n`` is the length of a row, RSUM and RMAX run
over it."""
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div",
}  # fmt: skip
_MODULES: dict[str, str] = {
    "ReLU": "relu", "GELU": "gelu", "SiLU": "silu", "Sigmoid": "sigmoid", "Tanh": "tanh",
    "ELU": "elu", "SELU": "selu", "Softplus": "softplus", "Mish": "mish", "Hardswish": "hardswish",
    "Hardsigmoid": "hardsigmoid", "Hardtanh": "hardtanh", "Softsign": "softsign",
    "LogSigmoid": "logsigmoid", "ReLU6": "relu6", "Tanhshrink": "tanhshrink",
    "LeakyReLU": "leaky_relu", "Softshrink": "softshrink",
}  # fmt: skip
_DEFAULTS = {"leaky_relu": "0.01", "softshrink": "0.5", "hardshrink": "0.5"}
_REDUCTIONS = ("mean", "sum", "amax", "amin", "std", "logsumexp", "vector_norm")
_ROW_FUNCTIONS = ("softmax", "log_softmax", "normalize", *_REDUCTIONS)
_NAMESPACES = ("torch", "F", "torch.nn.functional", "torch.linalg")


def meaning_of_operator(node: ast.BinOp) -> Meaning | None:
    """``a + b`` and its like, and squares."""
    left, right = ast.unparse(node.left), ast.unparse(node.right)
    if isinstance(node.op, ast.Pow):
        return Meaning("element", "square", (left,), "a * a") if right in ("2", "2.0") else None
    name = _OPERATORS.get(type(node.op))
    return Meaning("element", name, (left, right), BINARY[name]) if name else None


def meaning_of_call(
    node: ast.Call, attributes: Mapping[str, ast.expr], ranks: Mapping[str, int | None]
) -> Meaning | None:
    """A call of torch, of a submodule or of a tensor's method."""
    function = ast.unparse(node.func)
    if function in attributes:
        return _of_module(function, attributes[function], node)
    if not isinstance(node.func, ast.Attribute):
        return None
    base, name = ast.unparse(node.func.value), node.func.attr
    arguments = [ast.unparse(argument) for argument in node.args]
    if base not in _NAMESPACES:
        arguments = [base, *arguments]
    keywords = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg}
    if name in ("matmul", "mm"):
        return _product(arguments, ranks)
    if name in _ROW_FUNCTIONS:
        return _row(name, arguments, keywords, ranks)
    return _element(name, arguments, keywords)


def _of_module(name: str, made: ast.expr, call: ast.Call) -> Meaning | None:
    if not (isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute)):
        return None
    kind = made.func.attr
    operands = [ast.unparse(argument) for argument in call.args]
    options = {k.arg: ast.unparse(k.value) for k in made.keywords if k.arg}
    given = [ast.unparse(argument) for argument in made.args]
    if kind in _MODULES:
        if kind == "GELU" and options.get("approximate") == "'tanh'":
            return Meaning("element", "gelu_tanh", (operands[0],), UNARY["gelu_tanh"])
        return _element(_MODULES[kind], [*operands, *given], {})
    if kind == "Linear" and len(operands) == 1:
        biased = options.get("bias", "True") == "True"
        weights = (f"{name}.weight", f"{name}.bias") if biased else (f"{name}.weight",)
        return Meaning("matmul", "linear", (operands[0], *weights))
    if kind in ("LayerNorm", "RMSNorm") and len(given) == 1 and not options:
        known = "layer_norm" if kind == "LayerNorm" else "rms_norm"
        more = (f"{name}.weight", f"{name}.bias")[: 2 if kind == "LayerNorm" else 1]
        return Meaning("row", known, (operands[0], *more))
    if kind in ("Softmax", "LogSoftmax") and [*given, *options.values()] == ["-1"]:
        known = "softmax" if kind == "Softmax" else "log_softmax"
        return Meaning("row", known, (operands[0],))
    return None


def _element(name: str, arguments: list[str], keywords: dict[str, str]) -> Meaning | None:
    if name == "gelu" and keywords.pop("approximate", "'none'") == "'tanh'":
        name = "gelu_tanh"
    if name == "clamp":
        low = keywords.pop("min", None) or (arguments[1] if len(arguments) > 1 else None)
        high = keywords.pop("max", None) or (arguments[2] if len(arguments) > 2 else None)
        name = "clamp" if low and high else "clamp_min" if low else "clamp_max"
        arguments = [arguments[0], *[bound for bound in (low, high) if bound and bound != "None"]]
    if name in _DEFAULTS and len(arguments) == 1:
        arguments = [*arguments, keywords.pop("negative_slope", _DEFAULTS[name])]
    if keywords:
        return None
    for size, table in ((1, UNARY), (2, BINARY), (3, TERNARY)):
        if len(arguments) == size and name in table:
            return Meaning("element", name, tuple(arguments), table[name])
    return None


def _row(
    name: str, arguments: list[str], keywords: dict[str, str], ranks: Mapping[str, int | None]
) -> Meaning | None:
    dim = keywords.pop("dim", arguments[1] if len(arguments) == 2 else "")
    keeps = keywords.pop("keepdim", "False") == "True"
    if keywords or len(arguments) > 2 or not re.fullmatch(r"-?\d", dim):
        return None
    rank = ranks.get(arguments[0])
    axis = "" if dim == "-1" or (rank is not None and dim == str(rank - 1)) else dim
    reduces = name in _REDUCTIONS
    return Meaning(
        "row", name, (arguments[0],), keeps=keeps or not reduces, reduces=reduces, axis=axis
    )


def _product(arguments: list[str], ranks: Mapping[str, int | None]) -> Meaning | None:
    """Only products with a plain matrix on the right."""
    if len(arguments) == 2 and ranks.get(arguments[1]) == 2:
        return Meaning("matmul", "product", (arguments[0], arguments[1]))
    return None
