"""Kernels in Triton: flat, by row, and tiled matrix products, each with its launching function."""

from __future__ import annotations

from drkernel.collect.teacher.dialect import TRITON
from drkernel.collect.teacher.formulas import lines_of
from drkernel.collect.teacher.grouping import Group
from drkernel.collect.teacher.operands import (
    Given,
    given,
    handed_back,
    local_name,
    prepare,
    row_output,
)
from drkernel.collect.teacher.reading import Reference

IMPORTS = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl"
_INDENT = "    "


def arguments(group: Group, reference: Reference) -> list[str]:
    """What the launching function is called with."""
    if group.shape == "matmul":
        return list(_matmul_operands(group, reference))
    return list(given(group, reference, by_channel=group.shape == "flat").all)


def finish(kernels: list[str]) -> list[str]:
    """Nothing to add."""
    return kernels


def kernel(group: Group, reference: Reference, block: int, warps: int, stages: int) -> str:
    """Kernel and launching function."""
    if group.shape == "matmul":
        return _matmul(group, reference, block, warps, stages)
    if group.shape == "row":
        return _row(group, reference, warps)
    return _flat(group, reference, block, warps)


def _load(name: str, where: str, mask: str, *, truth: bool, other: str = "") -> str:
    convert = "" if truth else ".to(tl.float32)"
    return f"{name} = tl.load({name}_ptr + {where}, mask={mask}{other}){convert}"


def _pointers(found: Given, outputs: tuple[str, ...]) -> list[str]:
    listed = (*found.tensors, *found.columns, *found.channels)
    pointers = [f"{local_name(one)}_ptr" for one in listed]
    return [*pointers, *map(local_name, found.numbers), *(f"{o}_out" for o in outputs)]


def _function(group: Group, found: Given, middle: list[str]) -> str:
    names = ", ".join(local_name(one) for one in found.all)
    outputs = ", ".join(handed_back(group, output) for output in group.outputs)
    body = [*prepare(found, group.axis), *middle, f"return {outputs}"]
    return "\n".join([f"def {group.name}({names}):", *(_INDENT + line for line in body)])


def _flat(group: Group, reference: Reference, block: int, warps: int) -> str:
    found = given(group, reference, by_channel=True)
    model = local_name(found.model)
    sizes = ["total"]
    sizes += ["columns"] if found.columns else []
    sizes += ["inner", "channels"] if found.channels else []
    places = [
        *((one, "offsets") for one in found.tensors),
        *((one, "offsets % columns") for one in found.columns),
        *((one, "offsets // inner % channels") for one in found.channels),
    ]
    lines = [
        "offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "inside = offsets < total",
        *(
            _load(local_name(one), where, "inside", truth=one in found.masks)
            for one, where in places
        ),
        *lines_of(group, TRITON),
        *(f"tl.store({o}_out + offsets, {o}, mask=inside)" for o in group.outputs),
    ]
    given_sizes = {
        "total": f"{model}.numel()",
        "columns": f"{model}.shape[-1]",
        "inner": f"{model}[0, 0].numel()",
        "channels": f"{model}.shape[1]",
    }
    passed = [*(local_name(one) for one in found.all), *(f"{o}_out" for o in group.outputs)]
    passed += [given_sizes[size] for size in sizes]
    launch = [
        *(f"{o}_out = torch.empty_like({model})" for o in group.outputs),
        f"grid = (triton.cdiv({model}.numel(), {block}),)",
        f"{group.name}_kernel[grid]({', '.join(passed)}, BLOCK={block}, num_warps={warps})",
    ]
    heads = [*_pointers(found, group.outputs), *sizes]
    return _kernel(group, heads, lines) + "\n\n\n" + _function(group, found, launch)


def _kernel(group: Group, heads: list[str], lines: list[str], sizes: str = "BLOCK") -> str:
    constants = [f"{size}: tl.constexpr" for size in sizes.split()]
    return "\n".join(
        [
            "@triton.jit",
            f"def {group.name}_kernel({', '.join([*heads, *constants])}):",
            *(_INDENT + line for line in lines),
        ]
    )


def _row(group: Group, reference: Reference, warps: int) -> str:
    found = given(group, reference)
    model = local_name(found.model)
    other = ", other=0.0"
    heads = [*_pointers(found, group.outputs), "n"]
    lines = [
        "row = tl.program_id(0)",
        "columns = tl.arange(0, BLOCK)",
        "inside = columns < n",
        *(
            _load(
                local_name(one),
                "row * n + columns",
                "inside",
                truth=one in found.masks,
                other="" if one in found.masks else other,
            )
            for one in found.tensors
        ),
        *(
            _load(local_name(one), "columns", "inside", truth=False, other=other)
            for one in found.columns
        ),
        *lines_of(group, TRITON),
        *(_row_store(group, output) for output in group.outputs),
    ]
    passed = [*(local_name(one) for one in found.all), *(f"{o}_out" for o in group.outputs)]
    launch = [
        f"n = {model}.shape[-1]",
        *(f"{o}_out = {row_output(group, o, model)}" for o in group.outputs),
        "block = triton.next_power_of_2(n)",
        f"grid = ({model}.numel() // n,)",
        f"{group.name}_kernel[grid]({', '.join([*passed, 'n'])}, BLOCK=block, num_warps={warps})",
    ]
    return _kernel(group, heads, lines) + "\n\n\n" + _function(group, found, launch)


def _row_store(group: Group, output: str) -> str:
    if output in group.rows:
        return f"tl.store({output}_out + row, {output})"
    return f"tl.store({output}_out + row * n + columns, {output}, mask=inside)"


def _matmul_operands(group: Group, reference: Reference) -> tuple[str, ...]:
    product = group.steps[0].meaning
    assert product is not None
    rest = [one for one in given(group, reference).all if one not in product.operands]
    return (*product.operands, *rest)


def _matmul(group: Group, reference: Reference, block: int, warps: int, stages: int) -> str:
    product = group.steps[0].meaning
    assert product is not None
    operands = _matmul_operands(group, reference)
    x, weight, *more = (local_name(one) for one in operands)
    found = given(group, reference)
    masks = {local_name(one) for one in found.masks}
    columns = {local_name(one) for one in found.columns} | (
        {more[0]} if len(product.operands) > 2 else set()
    )
    numbers = {local_name(one) for one in found.numbers}
    tensors = [one for one in more if one not in columns | numbers]
    first, output = group.steps[0].targets[0], group.outputs[-1]
    heads = [f"{x}_ptr", f"{weight}_ptr"]
    heads += [one if one in numbers else f"{one}_ptr" for one in more]
    heads += ["out_ptr", "rows", "columns", "inner", "step_k", "step_n"]
    bias = f" + {more[0]}" if len(product.operands) > 2 else ""
    place = "i[:, None] * columns + j[None, :]"
    lines = [
        "i = tl.program_id(0) * M + tl.arange(0, M)",
        "j = tl.program_id(1) * N + tl.arange(0, N)",
        "inside = (i[:, None] < rows) & (j[None, :] < columns)",
        "total = tl.zeros((M, N), dtype=tl.float32)",
        "for start in range(0, inner, K):",
        "    k = start + tl.arange(0, K)",
        f"    a = tl.load({x}_ptr + i[:, None] * inner + k[None, :],",
        "                mask=(i[:, None] < rows) & (k[None, :] < inner), other=0.0)",
        f"    b = tl.load({weight}_ptr + k[:, None] * step_k + j[None, :] * step_n,",
        "                mask=(k[:, None] < inner) & (j[None, :] < columns), other=0.0)",
        "    total += tl.dot(a, b)",
        *(
            f"{one} = tl.load({one}_ptr + j, mask=j < columns, other=0.0)[None, :]"
            for one in more
            if one in columns
        ),
        *(_load(one, place, "inside", truth=one in masks) for one in tensors),
        f"{first} = total{bias}",
        *lines_of(group, TRITON, first=1),
        f"tl.store(out_ptr + {place}, {output}, mask=inside)",
    ]
    side = 64 if block >= 1024 else 32
    steps = f"{weight}.stride(1), {weight}.stride(0)"
    width = f"{weight}.shape[0]"
    if product.name == "product":
        steps, width = f"{weight}.stride(0), {weight}.stride(1)", f"{weight}.shape[1]"
    passed = ", ".join([x, weight, *more, "out", "rows", "columns", "inner", steps])
    body = [
        f"{x} = {x}.contiguous()",
        f"inner, columns = {x}.shape[-1], {width}",
        f"rows = {x}.numel() // inner",
        f"out = {x}.new_empty({x}.shape[:-1] + (columns,))",
        *(f"{one} = {one}.expand(out.shape).contiguous()" for one in tensors),
        f"grid = (triton.cdiv(rows, {side}), triton.cdiv(columns, {side}))",
        f"{group.name}_kernel[grid]({passed},",
        f"    M={side}, N={side}, K=32, num_warps={warps}, num_stages={stages})",
        "return out",
    ]
    function = [f"def {group.name}({', '.join([x, weight, *more])}):", *(_INDENT + b for b in body)]
    return _kernel(group, heads, lines, "M N K") + "\n\n\n" + "\n".join(function)
