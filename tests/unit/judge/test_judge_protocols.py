"""Tolerances of the three protocols, and which modes they judge."""

import pytest
import torch

from kernelgym.judge import protocols


@pytest.mark.parametrize(
    ("dtype", "rtol"),
    [(torch.float32, 1e-2), (torch.float16, 1e-2), (torch.bfloat16, 4e-2), (torch.complex64, 1e-2)],
)
def test_standard_is_relative_to_the_scale_and_adds_noise(dtype, rtol):
    allowed = protocols.standard(dtype, rms=10.0, noise=0.5)
    assert allowed.slope == rtol
    assert allowed.floor == pytest.approx(rtol * 10.0 + 4 * 0.5)
    assert allowed.equal_nan


def test_kernelbench_is_absolute():
    allowed = protocols.kernelbench()
    assert (allowed.slope, allowed.floor, allowed.equal_nan) == (1e-2, 1e-2, False)


def test_strict_has_no_room_for_tf32_and_some_for_another_order_of_summation():
    allowed = protocols.strict(torch.float32, rms=1.0, reference_error=0.0)
    assert 2**-20 < allowed.floor < 2**-16
    assert protocols.strict(torch.float32, 1.0, 1e-3).floor == pytest.approx(4e-3, rel=0.01)


def test_eval_comes_first_and_both_modes_decide():
    for protocol in ("standard", "strict"):
        modes = protocols.modes_of(protocol, random_in_train=False)
        assert modes.run == ("eval", "train")
        assert modes.deciding == {"eval", "train"}


def test_kernelbench_decides_in_train_mode():
    assert protocols.modes_of("kernelbench", random_in_train=False).deciding == {"train"}


@pytest.mark.parametrize("protocol", ["standard", "strict", "kernelbench"])
def test_random_references_are_compared_in_eval_mode_only(protocol):
    modes = protocols.modes_of(protocol, random_in_train=True)
    assert modes.run == ("eval", "train")
    assert modes.deciding == {"eval"}
