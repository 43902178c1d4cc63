"""A module around the kernels: imports, kernels, one function a kernel, ``ModelNew``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from drkernel.collect.teacher import numba_writer, triton_writer
from drkernel.collect.teacher.grouping import Group, group_steps, with_copy
from drkernel.collect.teacher.operands import local_name
from drkernel.collect.teacher.reading import Reference

Language = Literal["triton", "numba"]


@dataclass(frozen=True)
class Plan:
    """What a version of the module looks like; its line in the source is the teacher's memory."""

    level: int = 2
    """How much shares a kernel, see `drkernel.collect.teacher.grouping.LEVELS`."""
    chosen: int = 0
    """Which step level 0 takes."""
    block: int = 1024
    """Elements a program, or a tile's side times 16."""
    warps: int = 4
    stages: int = 2

    def line(self) -> str:
        """As a comment."""
        return (
            f"# plan: fuse={self.level} step={self.chosen} block={self.block}"
            f" warps={self.warps} stages={self.stages}"
        )


def read_plan(source: str) -> Plan | None:
    """The plan in a module's first lines."""
    for line in source.splitlines()[:3]:
        if line.startswith("# plan: "):
            try:
                fields = dict(part.split("=") for part in line.removeprefix("# plan: ").split())
                return Plan(
                    int(fields["fuse"]),
                    int(fields["step"]),
                    int(fields["block"]),
                    int(fields["warps"]),
                    int(fields["stages"]),
                )
            except (KeyError, ValueError):
                return None
    return None


def write_module(reference: Reference, plan: Plan, language: Language) -> str:
    """Source of a candidate that does what the reference does."""
    groups = group_steps(reference, plan.level, plan.chosen)
    if all(group.shape == "torch" for group in groups):
        reference = with_copy(reference)
        groups = group_steps(reference, plan.level, plan.chosen)
    writer = triton_writer if language == "triton" else numba_writer
    kernels, body = [], []
    for group in groups:
        if group.shape == "torch":
            body += [f"{', '.join(step.targets)} = {step.text}" for step in group.steps]
            continue
        kernels.append(writer.kernel(group, reference, plan.block, plan.warps, plan.stages))
        arguments = ", ".join(writer.arguments(group, reference))
        body.append(f"{', '.join(group.outputs)} = {group.name}({arguments})")
    body.append(f"return {reference.returned}")
    return _module(reference, plan, writer.IMPORTS, writer.finish(kernels), body)


def _module(
    reference: Reference, plan: Plan, imports: str, kernels: list[str], body: list[str]
) -> str:
    text = "\n".join([reference.init, *body])
    needed = [line for line in reference.imports if f"{line.split()[-1]}." in text]
    head = [plan.line(), *imports.splitlines(), *needed]
    parts = ["\n".join(dict.fromkeys(head))]
    if reference.constants:
        parts.append(reference.constants)
    parts += [kernel.strip("\n") for kernel in kernels]
    lines = ["class ModelNew(nn.Module):"]
    if reference.init:
        lines += ["    " + line if line else "" for line in reference.init.splitlines()] + [""]
    lines.append(f"    def forward({', '.join(['self', *reference.arguments])}):")
    lines += ["        " + line for line in body]
    parts.append("\n".join(lines))
    return "\n\n\n".join(parts) + "\n"


def write_decoy(reference: Reference, plan: Plan, language: Language) -> str:
    """Torch gives the answer; a kernel runs beside it and nobody reads what it wrote."""
    writer = triton_writer if language == "triton" else numba_writer
    body = [f"{', '.join(step.targets)} = {step.text}" for step in reference.steps]
    copied = with_copy(reference)
    group = group_steps(copied, 1)[-1]
    if group.shape == "torch" or group.steps[-1].targets != ("copied",):
        return write_module(reference, plan, language)  # nothing single is returned
    arguments = ", ".join(writer.arguments(group, copied))
    body += [f"scratch = {group.name}({arguments})", f"return {reference.returned}"]
    kernel = writer.kernel(group, copied, plan.block, plan.warps, plan.stages)
    return _module(reference, plan, writer.IMPORTS, writer.finish([kernel]), body)


__all__ = [
    "Group",
    "Language",
    "Plan",
    "local_name",
    "read_plan",
    "write_decoy",
    "write_module",
]
