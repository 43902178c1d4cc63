"""Switches of torch: each can be changed, is seen to have been, and comes back."""

import pytest
import torch

from kernelgym.errors import SandboxError
from kernelgym.judge import switches
from kernelgym.sandbox import pinning
from kernelgym.sandbox.frames import Frame, Kind
from kernelgym.sandbox.messages import Claims

matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn

CHANGES = {
    "matmul_fp32 tf32": lambda: setattr(matmul, "allow_tf32", True),
    "matmul_fp32 tf32 ": lambda: setattr(matmul, "fp32_precision", "tf32"),
    "matmul_fp32 tf32  ": lambda: torch.set_float32_matmul_precision("medium"),
    "conv_fp32 ieee": lambda: setattr(cudnn.conv, "fp32_precision", "ieee"),
    "rnn_fp32 ieee": lambda: setattr(cudnn.rnn, "fp32_precision", "ieee"),
    "fp16_reduced_sums off": lambda: setattr(
        matmul, "allow_fp16_reduced_precision_reduction", False
    ),
    "bf16_reduced_sums off": lambda: setattr(
        matmul, "allow_bf16_reduced_precision_reduction", False
    ),
    "fp16_accumulation on": lambda: setattr(matmul, "allow_fp16_accumulation", True),
    "cudnn off": lambda: setattr(cudnn, "enabled", False),
    "cudnn_benchmark on": lambda: setattr(cudnn, "benchmark", True),
    "cudnn_deterministic on": lambda: setattr(cudnn, "deterministic", True),
    "deterministic on": lambda: torch.use_deterministic_algorithms(True),
    "autocast on": lambda: torch.set_autocast_enabled("cuda", True),
    "default_dtype float64": lambda: torch.set_default_dtype(torch.float64),
    "threads 2": lambda: torch.set_num_threads(2),
}


@pytest.fixture(autouse=True)
def pinned():
    pinning.restore()
    yield
    pinning.restore()


def test_every_switch_is_tried():
    assert {name.split()[0] for name in CHANGES} == pinning.PINNED.keys()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_named_and_put_back(change):
    CHANGES[change]()
    name, value = change.split()
    assert pinning.differences(pinning.read()) == f"{name}={value}"
    assert pinning.restore() == {name: value}
    assert pinning.read() == dict(pinning.PINNED)


def test_old_and_new_ways_of_torch_can_be_asked_again():
    matmul.fp32_precision, cudnn.conv.fp32_precision = "tf32", "ieee"  # torch's own attributes
    with pytest.raises(RuntimeError, match="mix of the legacy and new"):  # raise after that
        _ = cudnn.allow_tf32
    pinning.restore()
    assert (matmul.allow_tf32, cudnn.allow_tf32) == (False, True)
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_switch_that_does_not_move_is_not_called_changed(monkeypatch):
    monkeypatch.setattr(pinning, "PINNED", {**pinning.PINNED, "cudnn": "off"})
    assert pinning.restore() == {}
    assert pinning.read()["cudnn"] == "on"


@pytest.mark.parametrize("allowed", [True, False])
def test_tf32_for_a_while(allowed):
    with pinning.tf32(allowed):
        seen = pinning.read()
    assert {seen["matmul_fp32"] == "tf32", seen["conv_fp32"] == "tf32"} == {allowed}
    assert pinning.read() == dict(pinning.PINNED)


def answer(**changes):
    body = Claims(switches=dict(pinning.PINNED) | changes).model_dump_json().encode()
    return Frame(Kind.DONE, 1, body)


def test_what_a_candidate_claims():
    assert switches.claimed(answer()) == "as pinned"
    assert switches.claimed(answer(matmul_fp32="tf32")) == "matmul_fp32=tf32"
    assert switches.claimed(answer(cudnn="\x1b[2J" * 9)) == "cudnn=?"


def test_a_harness_that_cannot_set_a_switch_is_no_candidates_fault():
    pinning.restore()
    switches.check_harness(answer())
    with pytest.raises(SandboxError, match="threads=64"):
        switches.check_harness(answer(threads="64"))
