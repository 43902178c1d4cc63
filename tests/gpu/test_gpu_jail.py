"""The jail of a GPU worker, attacked with the GPU in it."""

import pytest

from kernelgym.errors import SandboxError
from kernelgym.sandbox import selftest
from kernelgym.sandbox.jail import JailSpec


def test_it_holds_with_the_nodes_of_a_gpu_in_it():
    report = selftest.check(JailSpec("L1", 512 << 20, gpu=True, seals=True, fallback=True))
    assert report.level in ("L1", "L0")
    if report.level == "L1":
        assert report.breaches == ()


def test_nodes_that_stay_open_are_found():
    spec = JailSpec("L1", 512 << 20, gpu=True, seals=True, without=("private_dev",))
    with pytest.raises(SandboxError):
        selftest.check(spec)
