"""A program as the source of a module: imports, class, sizes, inputs, as a person writes them."""

from __future__ import annotations

import re
import textwrap

from kernelgym.tasks.synth.builder import Built, Statement
from kernelgym.tasks.synth.draw import Draw

WIDTH = 96
_INDENT = " " * 4


def model_source(built: Built, style: Draw) -> str:
    """Imports and the class."""
    stream = built.inputs[0].name
    body = _class(built, stream, style)
    imports = ["import torch", "import torch.nn as nn"]
    if re.search(r"\bF\.", body):
        imports.append("import torch.nn.functional as F")
    return "\n".join(imports) + "\n\n\n" + body


def _class(built: Built, stream: str, style: Draw) -> str:
    lines = ["class Model(nn.Module):"]
    lines += textwrap.indent(_docstring(built.phrases), _INDENT).split("\n")
    if built.init:
        lines += ["", *_indent(_signature("__init__", list(built.arguments)), 1)]
        wrapped = [part for line in built.init for part in _wrapped(line)]
        lines += _indent(["super().__init__()", *wrapped], 2)
    names = [given.name for given in built.inputs]
    lines += ["", *_indent(_signature("forward", names), 1)]
    lines += _indent(_forward(built.statements, stream, style), 2)
    return "\n".join(lines) + "\n"


def _indent(lines: list[str], depth: int) -> list[str]:
    return [_INDENT * depth + line for line in lines]


def _wrapped(line: str) -> list[str]:
    """A call that is too long for one line, with its arguments on the next."""
    opening = line.find("(")
    if len(line) <= WIDTH - 8 or opening < 0 or not line.endswith(")"):
        return [line]
    return [line[: opening + 1], _INDENT + line[opening + 1 : -1], ")"]


def _signature(name: str, arguments: list[str]) -> list[str]:
    text = f"def {name}({', '.join(['self', *arguments])}):"
    if len(text) <= WIDTH - 4:
        return [text]
    wrapped = textwrap.wrap(", ".join(["self", *arguments]), WIDTH - 8)
    return [f"def {name}(", *(_INDENT + line for line in wrapped), "):"]


def _docstring(phrases: list[str]) -> str:
    said = list(dict.fromkeys(phrases))
    text = ", ".join(said[:-1]) + (" and " if said[1:] else "") + said[-1]
    text = f"{text[0].upper()}{text[1:]}."
    wrapped = "\n".join(textwrap.wrap(f'"""{text}', WIDTH - 8))
    return wrapped + ('\n"""' if "\n" in wrapped else '"""')


def _forward(statements: list[Statement], stream: str, style: Draw) -> list[str]:
    """The lines of ``forward``; the stream is called ``x`` once it is no longer the argument."""
    merged = _merge(statements, style)
    lines = []
    for number, statement in enumerate(merged):
        text = statement.text.replace("$x", stream)
        if not statement.assigns:
            lines.append(text)
        elif number == len(merged) - 1:
            lines.append(f"return {text}")
        else:
            stream = "x"
            lines.append(f"{stream} = {text}")
    return lines


def _merge(statements: list[Statement], style: Draw) -> list[Statement]:
    """Nest some calls into the next one: ``x = f(x)``, ``x = g(x)`` as ``x = g(f(x))``."""
    merged: list[Statement] = []
    depth = 0
    for statement in statements:
        before = merged[-1] if merged else None
        room = before is not None and len(before.text) + len(statement.text) <= 64
        fits = before is not None and before.assigns and statement.assigns and statement.nests
        if fits and room and depth < 2 and style.chance(0.45):
            assert before is not None
            text = statement.text.replace("$x", before.text)
            merged[-1] = Statement(text, True, before.nests)
            depth += 1
        else:
            merged.append(statement)
            depth = 0
    return merged


def constants_used(built: Built, functions: str) -> list[str]:
    """Names of the module-level constants that the functions read, in order of definition."""
    words = set(re.findall(r"\w+", functions))
    return [name for name in built.constants if name in words]


def init_inputs(built: Built) -> str:
    """The function ``get_init_inputs``."""
    arguments = list(built.arguments)
    text = f"return [{', '.join(arguments)}]"
    lines = [text]
    if len(text) > WIDTH - 4:
        wrapped = textwrap.wrap(", ".join(arguments), WIDTH - 8)
        lines = ["return [", *(_INDENT + line for line in wrapped), "]"]
    return "\n".join(["def get_init_inputs():", *_indent(lines, 1)]) + "\n"
