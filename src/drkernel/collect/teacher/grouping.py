"""Which steps share a kernel: from one lone kernel to everything that fits together.

A group is a run of neighbouring steps. Steps without a meaning, and those that a level leaves
alone, stay in torch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drkernel.collect.teacher.meaning import Meaning
from drkernel.collect.teacher.reading import Reference, Step

LEVELS = range(4)
"""0: one step in a kernel. 1: a kernel for each step that is no matrix product. 2: neighbours
fused. 3: matrix products, too, with what follows them."""
Shape = Literal["torch", "flat", "row", "matmul"]


@dataclass(frozen=True)
class Group:
    """Steps that are computed together."""

    shape: Shape
    steps: tuple[Step, ...]
    name: str = ""
    """Name of the kernel."""
    outputs: tuple[str, ...] = ()
    """Values that are read outside."""
    rows: frozenset[str] = frozenset()
    """Values with one number a row."""

    @property
    def axis(self) -> str:
        """The dimension that its rows run along, where it is not the last one."""
        return next((step.meaning.axis for step in self.steps if step.meaning), "")

    @property
    def defined(self) -> set[str]:
        """Values that it computes."""
        return {target for step in self.steps for target in step.targets}


def with_copy(reference: Reference) -> Reference:
    """The reference with a copy at the end, where nothing else could be a kernel."""
    known = {target for step in reference.steps for target in step.targets}
    if reference.returned not in known | set(reference.arguments):
        return reference
    copy = Step(
        ("copied",),
        f"{reference.returned}.clone()",
        (reference.returned,),
        Meaning("element", "copy", (reference.returned,), "a"),
    )
    return replace(reference, steps=(*reference.steps, copy), returned="copied")


def group_steps(reference: Reference, level: int, chosen: int = 0) -> list[Group]:
    """Groups in order. ``chosen``: which of the possible steps level 0 takes, modulo how many."""
    steps = list(reference.steps)
    possible = [i for i, s in enumerate(steps) if s.meaning and s.meaning.kind != "matmul"]
    if level == 0 and possible:
        possible = [possible[chosen % len(possible)]]
    taken = set(possible)
    if level >= 3:
        taken |= {i for i, step in enumerate(steps) if step.meaning}
    runs: list[list[int]] = []
    for index in range(len(steps)):
        joins = level >= 2 and runs and _joins(steps, runs[-1], index, taken)
        if joins:
            runs[-1].append(index)
        else:
            runs.append([index])
    groups = [_group(steps, run, taken) for run in runs]
    return [_finish(group, number, groups, reference) for number, group in enumerate(groups)]


def _joins(steps: Sequence[Step], run: list[int], index: int, taken: set[int]) -> bool:
    if index not in taken or run[-1] not in taken:
        return False
    meaning = steps[index].meaning
    assert meaning is not None
    if meaning.kind == "matmul" or meaning.axis or _axis(steps[run[-1]]):
        return False  # another dimension is a matter of its own
    members = [steps[i] for i in run]
    inside = {target for step in members for target in step.targets}
    if not any(operand in inside for operand in meaning.operands):
        return False  # nothing to gain
    first = members[0].meaning
    assert first is not None
    if first.kind == "matmul":
        return meaning.kind == "element"
    rows = rows_of(members)
    if any(step.meaning and step.meaning.reduces and not step.meaning.keeps for step in members):
        return False
    touched = [operand for operand in meaning.operands if operand in rows]
    foreign = [operand for operand in meaning.tensors if operand not in inside]
    # A row's number beside a tensor from outside: their shapes are not known to fit.
    return not (touched and (foreign or meaning.kind == "row"))


def _axis(step: Step) -> str:
    return step.meaning.axis if step.meaning else ""


def rows_of(steps: Sequence[Step]) -> set[str]:
    """Values among the steps that hold one number a row."""
    rows: set[str] = set()
    inside = {target for step in steps for target in step.targets}
    for step in steps:
        meaning = step.meaning
        if meaning is None:
            continue
        tensors = [operand for operand in meaning.operands if operand in inside]
        only_rows = tensors and all(operand in rows for operand in tensors)
        foreign = any(operand not in inside for operand in meaning.tensors)
        if meaning.reduces or (meaning.kind == "element" and only_rows and not foreign):
            rows.update(step.targets)
    return rows


def _group(steps: Sequence[Step], run: list[int], taken: set[int]) -> Group:
    members = tuple(steps[i] for i in run)
    if run[0] not in taken:
        return Group("torch", members)
    kinds = {step.meaning.kind for step in members if step.meaning}
    shape: Shape = "matmul" if "matmul" in kinds else "row" if "row" in kinds else "flat"
    return Group(shape, members, rows=frozenset(rows_of(members)))


def _finish(group: Group, number: int, groups: list[Group], reference: Reference) -> Group:
    if group.shape == "torch":
        return group
    later = {read for other in groups[number + 1 :] for step in other.steps for read in step.reads}
    later |= set(re.findall(r"\w+", reference.returned))
    outputs = tuple(
        target for step in group.steps for target in step.targets if target in later
    ) or (group.steps[-1].targets[0],)
    before = sum(other.shape != "torch" for other in groups[:number])
    names = [step.meaning.name for step in group.steps if step.meaning]
    name = f"{'_'.join(dict.fromkeys(names[:3]))}_{before + 1}"
    return Group(group.shape, group.steps, name, outputs, group.rows)
