"""Kernels in Numba: rows of a matrix one after another, with numpy's arithmetic on each."""

from __future__ import annotations

from drkernel.collect.teacher.dialect import NUMBA
from drkernel.collect.teacher.formulas import lines_of
from drkernel.collect.teacher.grouping import Group
from drkernel.collect.teacher.operands import given, handed_back, local_name, prepare, row_output
from drkernel.collect.teacher.reading import Reference

IMPORTS = "import math\nimport numba\nimport numpy as np\nimport torch\nimport torch.nn as nn"
_INDENT = "    "


def arguments(group: Group, reference: Reference) -> list[str]:
    """What the launching function is called with."""
    if group.shape != "matmul":
        return list(given(group, reference).all)
    product = group.steps[0].meaning
    assert product is not None
    rest = [one for one in given(group, reference).all if one not in product.operands]
    return [*product.operands, *rest]


def finish(kernels: list[str]) -> list[str]:
    """Put the functions that kernels call before them."""
    return [*NUMBA.helpers_in("\n".join(kernels)), *kernels]


def kernel(group: Group, reference: Reference, block: int, warps: int, stages: int) -> str:
    """Kernel and calling function. There is nothing to tune but the loop over rows."""
    parallel = warps > 4
    if group.shape == "matmul":
        return _matmul(group, reference, parallel)
    return _rows(group, reference, parallel)


def _jit(parallel: bool) -> tuple[str, str]:
    if parallel:
        return "@numba.njit(parallel=True)", "numba.prange"
    return "@numba.njit", "range"


def _array(name: str) -> str:
    return f"{name}.detach().numpy()"


def _flat(name: str, width: str) -> str:
    return f"{name}.detach().numpy().reshape(-1, {width})"


def _rows(group: Group, reference: Reference, parallel: bool) -> str:
    found = given(group, reference)
    decorator, loop = _jit(parallel)
    model = local_name(found.model)
    names = [local_name(one) for one in found.all]
    tensors = [local_name(one) for one in found.tensors]
    outputs = [f"{output}_out" for output in group.outputs]
    heads = [f"all_{one}" if one in tensors else one for one in names] + outputs
    lines = [
        f"n = all_{model}.shape[1]",
        f"for i in {loop}(all_{model}.shape[0]):",
        *(f"    {one} = all_{one}[i]" for one in tensors),
        *(f"    {line}" for line in lines_of(group, NUMBA)),
        *(f"    {o}_out[i] = {o}" for o in group.outputs),
    ]
    passed = [
        *(_flat(one, "n") for one in tensors),
        *(_array(local_name(one)) for one in found.columns),
        *(local_name(one) for one in found.numbers),
        *(
            f"{o}_out.numpy().reshape(-1)" if o in group.rows else f"{_flat(f'{o}_out', 'n')}"
            for o in group.outputs
        ),
    ]
    body = [
        *prepare(found, group.axis),
        f"n = {model}.shape[-1]",
        *(f"{o}_out = {row_output(group, o, model)}" for o in group.outputs),
        f"{group.name}_kernel({', '.join(passed)})",
        f"return {', '.join(handed_back(group, output) for output in group.outputs)}",
    ]
    return "\n".join(
        [
            decorator,
            f"def {group.name}_kernel({', '.join(heads)}):",
            *(_INDENT + line for line in lines),
            "",
            "",
            f"def {group.name}({', '.join(names)}):",
            *(_INDENT + line for line in body),
        ]
    )


def _matmul(group: Group, reference: Reference, parallel: bool) -> str:
    product = group.steps[0].meaning
    assert product is not None
    found = given(group, reference)
    decorator, loop = _jit(parallel)
    x, weight, *more = (local_name(one) for one in arguments(group, reference))
    numbers = {local_name(one) for one in found.numbers}
    columns = {local_name(one) for one in found.columns}
    bias = more[0] if len(product.operands) > 2 else ""
    tensors = [one for one in more if one not in columns | numbers and one != bias]
    first, output = group.steps[0].targets[0], group.outputs[-1]
    heads = [x, weight, *(f"all_{one}" if one in tensors else one for one in more), "out"]
    lines = [
        f"for i in {loop}({x}.shape[0]):",
        f"    {first} = {f'{bias}.copy()' if bias else f'np.zeros_like({weight}[0])'}",
        f"    for k in range({x}.shape[1]):",
        f"        {first} += {x}[i, k] * {weight}[k]",
        *(f"    {one} = all_{one}[i]" for one in tensors),
        *(f"    {line}" for line in lines_of(group, NUMBA, first=1)),
        f"    out[i] = {output}",
    ]
    turned = weight if product.name == "product" else f"{weight}.t()"
    passed = [
        _flat(x, f"{x}.shape[-1]"),
        f"{turned}.detach().contiguous().numpy()",
        *(
            _flat(one, "columns") if one in tensors else one if one in numbers else _array(one)
            for one in more
        ),
        _flat("out", "columns"),
    ]
    body = [
        f"{x} = {x}.contiguous()",
        f"columns = {weight}.shape[{1 if product.name == 'product' else 0}]",
        f"out = {x}.new_empty({x}.shape[:-1] + (columns,))",
        *(f"{one} = {one}.expand(out.shape).contiguous()" for one in tensors),
        f"{group.name}_kernel({', '.join(passed)})",
        "return out",
    ]
    return "\n".join(
        [
            decorator,
            f"def {group.name}_kernel({', '.join(heads)}):",
            *(_INDENT + line for line in lines),
            "",
            "",
            f"def {group.name}({', '.join([x, weight, *more])}):",
            *(_INDENT + line for line in body),
        ]
    )
