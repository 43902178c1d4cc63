"""Every built-in task is a problem: trivial answers fail, inputs and parameters matter."""

import dataclasses

import pytest
import torch

from kernelgym.tasks.constants import constant_values
from kernelgym.tasks.registry import builtin_task, builtin_tasks

NAMES = [task.name for task in builtin_tasks()]


def load(name):
    namespace = {"__name__": "task"}
    exec(compile(builtin_task(name).reference, name, "exec"), namespace)
    return namespace


def build(namespace, seed=0):
    torch.manual_seed(seed)
    return namespace["Model"](*namespace["get_init_inputs"]()).eval()


def inputs(namespace, seed):
    torch.manual_seed(seed)
    return namespace["get_inputs"]()


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [leaf for item in values for leaf in leaves(item)]


def call(model, arguments):
    with torch.no_grad():
        return leaves(model(*[argument.clone() for argument in arguments]))


def close(actual, expected):
    """The standard protocol's rule for fp32, without its noise term."""
    for ours, theirs in zip(actual, expected, strict=True):
        if ours.shape != theirs.shape:
            return False
        if theirs.numel() == 0:
            continue
        ours, theirs = ours.double(), theirs.double()
        allowed = 1e-2 * theirs.abs() + 1e-2 * theirs.pow(2).mean().sqrt()
        if not bool(((ours - theirs).abs() <= allowed).all()):
            return False
    return True


def test_there_are_enough_and_they_cover_the_kinds():
    assert len(NAMES) >= 20
    categories = {task.category for task in builtin_tasks()}
    assert categories >= {
        "element-wise", "reduction", "normalization", "softmax", "matmul", "convolution",
        "attention", "in-place", "multi-output", "integer", "edge case", "gather",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_reference_is_deterministic_and_depends_on_its_inputs(name):
    task = load(name)
    model = build(task)
    first = call(model, inputs(task, 1))
    assert all(bool(torch.isfinite(leaf).all()) for leaf in first)
    assert close(first, call(model, inputs(task, 1)))
    assert not close(call(model, inputs(task, 2)), first), "cached first answer passes"


@pytest.mark.parametrize("name", NAMES)
def test_trivial_answers_fail(name):
    task = load(name)
    arguments = inputs(task, 1)
    expected = call(build(task), arguments)
    assert not close([torch.zeros_like(leaf) for leaf in expected], expected), "zeros pass"
    means = [
        torch.full_like(leaf, leaf.double().mean().item() if leaf.numel() else 0)
        for leaf in expected
    ]
    assert not close(means, expected), "a constant passes"
    if len(arguments) >= len(expected):
        assert not close(arguments[: len(expected)], expected), "the input passes"


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_matters_and_is_not_at_its_default(name):
    task = load(name)
    model, arguments = build(task), inputs(task, 1)
    expected = call(model, arguments)
    for key, parameter in model.named_parameters():
        old = parameter.detach().clone()
        for default in (0.0, 1.0):
            with torch.no_grad():
                parameter.fill_(default)
            assert not close(call(model, arguments), expected), f"{key} = {default} passes"
        with torch.no_grad():
            parameter.copy_(old)


@pytest.mark.parametrize("name", NAMES)
def test_floating_inputs_have_both_signs_and_are_small(name):
    task = load(name)
    for argument in inputs(task, 1):
        assert argument.numel() <= 20_000
        if argument.is_floating_point() and argument.numel():
            assert bool((argument < 0).any())
            assert bool((argument > 0).any())


@pytest.mark.parametrize("name", NAMES)
def test_gpu_variant_has_other_sizes_only(name):
    small, large = builtin_task(name), builtin_task(name + ":gpu")
    assert large.name == name + ":gpu"
    assert large.content_hash != small.content_hash
    before, after = constant_values(small.reference), constant_values(large.reference)
    changed = {key for key in before if before[key] != after[key]}
    assert changed == set(before["GPU_SIZES"])
    assert small.reference.count("\n") == large.reference.count("\n")


def test_edge_cases_are_what_they_say():
    empty, full = inputs(load("builtin/empty_batch"), 0)
    assert empty.numel() == 0 < full.numel()
    [transposed] = inputs(load("builtin/transposed_input"), 0)
    assert not transposed.is_contiguous()
    scale = load("builtin/scale_inplace")
    [x] = inputs(scale, 0)
    assert build(scale)(x) is x


def test_add_has_the_size_that_latency_is_quoted_for():
    [add] = [task for task in builtin_tasks() if task.name == "builtin/add"]
    assert dataclasses.asdict(add)["sizes"] == {"ELEMENTS": 16_384}
