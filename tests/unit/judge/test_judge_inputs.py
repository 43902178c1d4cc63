"""Seeds, copies into a pool, poison."""

import pytest
import torch

from kernelgym.judge import inputs
from kernelgym.judge.compare import same_bits
from kernelgym.sandbox.pool import HostPool, place, place_dense, view


def test_seeds_are_fresh_and_fit_any_reader():
    seeds = {inputs.draw_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert max(seeds) < 2**48


def test_conversion_keeps_integers_eight_bits_and_identity():
    shared = torch.rand(3, dtype=torch.float64)
    kept = [torch.arange(3), torch.zeros(2, dtype=torch.float8_e5m2), torch.zeros(2).cfloat()]
    converted = inputs.convert([shared, shared, *kept], torch.float16)
    assert converted[0] is converted[1]
    assert converted[0].dtype == torch.float16
    assert all(left is right for left, right in zip(converted[2:], kept, strict=True))


def test_conversion_keeps_the_wish_for_a_gradient():
    (converted,) = inputs.convert([torch.ones(1, requires_grad=True)], torch.float16)
    assert converted.requires_grad
    assert converted.is_leaf


BASE = torch.arange(24.0)


@pytest.mark.parametrize(
    "tensors",
    [
        [BASE.reshape(4, 6)],
        [BASE.reshape(4, 6).t()],
        [BASE.reshape(4, 6)[1:, ::2]],
        [BASE[:1].expand(5, 3)],
        [BASE.as_strided((5, 4), (2, 1))],
        [BASE[:12], BASE[6:]],
        [torch.empty(0, 3), torch.tensor(7), torch.tensor([True, False])],
        [torch.randn(4, dtype=torch.complex128), torch.randn(3).bfloat16()],
    ],
)
def test_a_copy_has_the_same_values_strides_and_sharing(tensors):
    layouts, size = place(tensors, 1024)
    pool = HostPool(size)
    inputs.copy_into(pool.flat, layouts, tensors)
    copies = [view(pool.flat, layout) for layout in layouts]
    for tensor, copy in zip(tensors, copies, strict=True):
        assert same_bits(copy.contiguous(), tensor.contiguous())
        assert copy.stride() == tensor.stride()
    if len(tensors) > 1 and tensors[0] is not tensors[1] and tensors[0].numel() == 12:
        copies[0][11] = -1.0
        assert copies[1][5] == -1.0


@pytest.mark.parametrize("turn", [0, 1])
def test_poison_is_seen_until_something_is_written(turn):
    tensors = [torch.zeros(5), torch.zeros(6000)]
    layouts, size = place_dense(tensors)
    pool = HostPool(size)
    value = inputs.poison(pool.flat, layouts, turn)
    assert all(inputs.still_poisoned(pool.flat, layout, value) for layout in layouts)
    view(pool.flat, layouts[1])[5999] = 1.0
    assert not inputs.still_poisoned(pool.flat, layouts[1], value)
    assert inputs.still_poisoned(pool.flat, layouts[0], value)


def test_the_first_poison_is_not_a_number():
    (layout,), size = place_dense([torch.zeros(4)])
    pool = HostPool(size)
    inputs.poison(pool.flat, [layout], 0)
    assert view(pool.flat, layout).isnan().all()


@pytest.mark.parametrize(
    "value", [3, {"x": 1}, torch.zeros(1), [object()], [torch.eye(2).to_sparse()], [lambda: 1]]
)
def test_what_cannot_be_passed_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        inputs.arguments(value, torch.float32)


def test_lazy_conjugates_are_made_real():
    found = inputs.arguments([torch.ones(2, dtype=torch.complex64).conj()], torch.float32)
    assert not found.tensors[0].is_conj()
