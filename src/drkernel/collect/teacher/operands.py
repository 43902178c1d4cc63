"""What a kernel is given: which operands are tensors, columns, masks and numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from drkernel.collect.teacher.grouping import Group
from drkernel.collect.teacher.reading import Reference

_MASKS = {"where": 0, "masked_fill": 1}
"""Place of the mask among the operands."""


def local_name(operand: str) -> str:
    """An identifier for an operand: ``self.norm.weight`` becomes ``norm_weight``."""
    return operand.removeprefix("self.").replace(".", "_")


def is_literal(operand: str) -> bool:
    """A number that is written out."""
    return re.fullmatch(r"-?\d+(\.\d*)?(e-?\d+)?", operand) is not None


@dataclass(frozen=True)
class Given:
    """The operands of a group that come from outside, each once, in order of use."""

    tensors: tuple[str, ...]
    """Of the output's shape, after broadcasting."""
    columns: tuple[str, ...]
    """One number a column."""
    numbers: tuple[str, ...]
    """Stored numbers, passed as arguments."""
    channels: tuple[str, ...]
    """One number a channel, the second dimension; only where that was asked for."""
    masks: frozenset[str]
    """Tensors that hold truth values."""

    @property
    def all(self) -> tuple[str, ...]:
        """Everything, in the order of the kernel's arguments."""
        return (*self.tensors, *self.columns, *self.channels, *self.numbers)

    @property
    def model(self) -> str:
        """The tensor whose type the output has."""
        return next((one for one in self.tensors if one not in self.masks), self.tensors[0])


def given(group: Group, reference: Reference, *, by_channel: bool = False) -> Given:
    """What the group reads. ``by_channel``: the kernel can index channels itself."""
    tensors: dict[str, None] = {}
    columns: dict[str, None] = {}
    channels: dict[str, None] = {}
    numbers: dict[str, None] = {}
    masks = set()
    inside = group.defined
    for step in group.steps:
        meaning = step.meaning
        assert meaning is not None
        numbers |= {o: None for o in meaning.numbers if not is_literal(o)}
        for place, operand in enumerate(meaning.operands):
            if operand in inside or operand in meaning.numbers:
                continue
            if meaning.name in _MASKS and _MASKS[meaning.name] == place:
                masks.add(operand)
            if operand in reference.columns or operand.count(".") == 2:
                columns[operand] = None
            elif by_channel and operand in reference.channels:
                channels[operand] = None
            else:
                tensors[operand] = None
    if not tensors:  # only parameters: then they are the tensors
        tensors, columns, channels = {**columns, **channels}, {}, {}
    return Given(tuple(tensors), tuple(columns), tuple(numbers), tuple(channels), frozenset(masks))


def prepare(found: Given, axis: str = "") -> list[str]:
    """Lines that bring tensors to one shape, their rows side by side in memory."""
    names = [local_name(one) for one in found.tensors]
    lines = []
    if len(names) > 1:
        joined = ", ".join(names)
        lines.append(f"{joined} = torch.broadcast_tensors({joined})")
    moved = f".movedim({axis}, -1)" if axis else ""
    return [*lines, *(f"{name} = {name}{moved}.contiguous()" for name in names)]


def row_output(group: Group, output: str, model: str) -> str:
    """An empty tensor for one output of a group that works by row."""
    if output not in group.rows:
        return f"torch.empty_like({model})"
    keeps = any(s.meaning and s.meaning.keeps for s in group.steps if output in s.targets)
    return f"{model}.new_empty({model}.shape[:-1]" + (" + (1,))" if keeps else ")")


def handed_back(group: Group, output: str) -> str:
    """An output with its dimensions in the order of the reference."""
    keeps = any(s.meaning and s.meaning.keeps for s in group.steps if output in s.targets)
    moved = f".movedim(-1, {group.axis})" if group.axis and keeps else ""
    return f"{output}_out{moved}"


def values(group: Group) -> dict[str, str]:
    """How the group's kernel calls each operand."""
    named = {}
    for step in group.steps:
        assert step.meaning is not None
        for operand in step.meaning.operands:
            named[operand] = operand if is_literal(operand) else local_name(operand)
    return named
