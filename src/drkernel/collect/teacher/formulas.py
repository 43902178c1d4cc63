"""Lines that compute a group's values, in a dialect."""

from __future__ import annotations

from drkernel.collect.teacher.dialect import Dialect
from drkernel.collect.teacher.grouping import Group
from drkernel.collect.teacher.meaning import ROWS
from drkernel.collect.teacher.operands import values
from drkernel.collect.teacher.reading import Step


def lines_of(group: Group, dialect: Dialect, first: int = 0) -> list[str]:
    """One or more assignments a step, from step ``first`` on."""
    named = values(group)
    return [line for step in group.steps[first:] for line in _step(step, dialect, named)]


def _step(step: Step, dialect: Dialect, named: dict[str, str]) -> list[str]:
    meaning = step.meaning
    assert meaning is not None
    operands = dict(zip("abc", (named[operand] for operand in meaning.operands), strict=False))
    target = step.targets[0]
    if meaning.kind == "element":
        return [f"{target} = {dialect.spell(meaning.formula, operands)}"]
    parts, final = ROWS[meaning.name]
    lines = []
    for letter, formula in parts:
        name = f"{target}_{letter}"
        lines.append(f"{name} = {dialect.spell(formula, operands | {'n': 'n'})}")
        operands[letter] = name
    return [*lines, f"{target} = {dialect.spell(final, operands | {'n': 'n'})}"]
