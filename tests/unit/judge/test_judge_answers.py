"""One answer against what was expected, in a pool as the candidate leaves it."""

import math

import pytest
import torch

from kernelgym.judge.answers import BadAnswer, Examiner, Expected
from kernelgym.judge.inputs import poison
from kernelgym.sandbox.messages import Output
from kernelgym.sandbox.pool import TensorLayout, place_dense, write
from kernelgym.sandbox.tree import flatten


def output_of(value, pool, **changes) -> Output:
    """What an honest harness says, after it has copied the tensors."""
    node, tensors = flatten(value)
    layouts, _ = place_dense(tensors)
    write(pool, layouts, tensors)
    fields = {
        "tree": node,
        "tensors": layouts,
        "devices": tuple(t.device.type for t in tensors),
    }
    return Output.model_validate(fields | changes)


def examine(expected, actual, protocol="standard", *, poisoned=255, **options):
    pool = torch.zeros(1 << 16, dtype=torch.uint8)
    node, tensors = flatten(expected)
    changes = options.pop("changes", {})
    wanted = Expected(node, tensors, options.pop("noise", [0.0] * len(tensors)), **options)
    examiner = Examiner(protocol, torch.float32)
    return examiner.examine(wanted, output_of(actual, pool, **changes), pool, poisoned)


X = torch.linspace(-3, 3, 100)


def test_an_equal_answer_passes_with_numbers():
    verdict = examine((X, {"n": 3}), (X.clone(), {"n": 3}))
    assert verdict.status == "ok"
    assert (verdict.max_abs_error, verdict.worst_ratio) == (0.0, 0.0)
    assert verdict.quantiles == (0.0, 0.0, 0.0)


def test_tolerance_is_relative_to_the_scale_of_each_output():
    small, large = X * 1e-6, X * 1e6
    assert examine((small, large), (small * 1.005, large * 1.005)).status == "ok"
    verdict = examine((small, large), (small + 1e-6, large))
    assert verdict.status == "value_mismatch"
    assert verdict.detail.startswith("output[0]: 100 of 100 elements differ (100%); worst at [")


def test_zeros_do_not_pass_for_small_outputs_except_under_kernelbench():
    small = X * 1e-3
    assert examine(small, torch.zeros(100)).status == "value_mismatch"
    assert examine(small, torch.zeros(100), "kernelbench").status == "ok"


def test_noise_widens_the_tolerance_four_times():
    assert examine(X, X + 0.5, noise=[0.13]).status == "ok"
    assert examine(X, X + 0.5, noise=[0.05]).status == "value_mismatch"


@pytest.mark.parametrize(
    ("actual", "status", "words"),
    [
        (X[:50], "shape_mismatch", "expected shape (100,), got (50,)"),
        (X[None], "shape_mismatch", "got (1, 100)"),
        (X.double(), "dtype_mismatch", "expected dtype float32, got float64"),
        ((X,), "structure_mismatch", "expected a tensor, got a tuple of 1"),
        (torch.where(X > 2, math.nan, X), "nan_mismatch", "elements differ"),
        (X + 1, "value_mismatch", "100 of 100"),
    ],
)
def test_differences_have_a_status_and_words(actual, status, words):
    verdict = examine(X, actual)
    assert verdict.status == status
    assert words in verdict.detail


def test_integers_and_bools_are_exact():
    index = torch.arange(10)
    assert examine(index, index.clone()).status == "ok"
    assert examine(index, index + (index == 3)).status == "value_mismatch"
    assert examine(index > 3, index > 2).status == "value_mismatch"


def test_floats_among_the_outputs_have_a_tolerance():
    assert examine((X, 2.0), (X, 2.001)).status == "ok"
    assert examine((X, 2.0), (X, 2.1)).status == "value_mismatch"


def test_other_devices_are_seen():
    verdict = examine(X, X, changes={"devices": ("cuda",)})
    assert verdict.status == "device_mismatch"


def test_sharing_is_allowed_only_where_the_reference_shares():
    changes = {"aliases": ("0 input 0",)}
    assert examine(X, X, changes=changes).status == "aliased_output"
    assert examine(X, X, changes=changes, shared=frozenset({"input"})).status == "ok"
    assert examine(X, X, changes=changes, shared=frozenset({"state"})).status == "aliased_output"


def test_an_output_that_was_never_copied_is_unwritten():
    pool = torch.zeros(1 << 12, dtype=torch.uint8)
    node, tensors = flatten(X)
    layouts, _ = place_dense(tensors)
    value = poison(pool, layouts, 0)
    claim = Output(tree=node, tensors=tuple(layouts), devices=("cpu",))
    verdict = Examiner("standard", torch.float32).examine(
        Expected(node, tensors, [0.0]), claim, pool, value
    )
    assert verdict.status == "unwritten_output"


def test_a_claim_of_a_tensor_that_was_not_stored_is_unwritten():
    layout = TensorLayout(dtype="float32", shape=(100,), stride=(1,), offset=-1)
    assert examine(X, X, changes={"tensors": (layout,)}).status == "unwritten_output"


@pytest.mark.parametrize(
    "changes",
    [
        {"tree": {"k": "tensor", "i": 5, "c": "Tensor"}},
        {"tree": {"k": "nonsense"}},
        {"devices": ()},
        {"tensors": (TensorLayout(dtype="float32", shape=(100,), stride=(1,), offset=1 << 20),)},
        {"tensors": (TensorLayout(dtype="float32", shape=(100,), stride=(0,), offset=0),)},
        {"tensors": (TensorLayout(dtype="float32", shape=(100,), stride=(1,), offset=2),)},
    ],
)
def test_claims_that_contradict_themselves_are_refused(changes):
    with pytest.raises(BadAnswer):
        examine(X, X, changes=changes)


def test_empty_outputs():
    assert examine(torch.empty(0, 3), torch.empty(0, 3)).status == "ok"
    assert examine(torch.empty(0, 3), torch.empty(3, 0)).status == "shape_mismatch"


def test_strict_compares_with_the_oracle_and_bounds_a_bias():
    oracle = [X.double() / 3]
    right = X / 3
    assert examine(right, right.clone(), "strict", oracle=oracle).status == "ok"
    assert examine(right, right + 1e-4, "strict", oracle=oracle).status == "value_mismatch"
    rough = right.clone()
    rough[50] += 0.1  # the reference itself is far off in one place, which widens the worst case
    biased = examine(rough, right + 0.05, "strict", oracle=oracle)
    assert biased.status == "value_mismatch"
    assert "bias" in biased.detail


def test_the_worst_of_several_outputs_is_reported():
    verdict = examine((X, X), (X + 0.001, X + 0.01))
    assert verdict.status == "ok"
    assert verdict.max_abs_error == pytest.approx(0.01, rel=1e-3)
