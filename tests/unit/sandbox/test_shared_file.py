"""Shared memory that neither side can take away from under the other."""

from __future__ import annotations

import os

import pytest

from kernelgym.cuda.page import HostPage
from kernelgym.sandbox.pool import HostPool


@pytest.mark.parametrize("make", [lambda: HostPool(1 << 16), HostPage], ids=["pool", "page"])
@pytest.mark.parametrize("size", [0, 1 << 20], ids=["shorter", "longer"])
def test_its_size_is_final(make, size):
    shared = make()
    before = os.fstat(shared.fileno()).st_size
    with pytest.raises(PermissionError):
        os.ftruncate(shared.fileno(), size)
    assert os.fstat(shared.fileno()).st_size == before
    shared.close()
