"""Everything below needs an NVIDIA GPU with its driver, a CUDA build of torch and cuda-bindings."""

import importlib.util
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def why_not():
    if not any(name.startswith("nvidia") for name in os.listdir("/dev")):
        return "no NVIDIA device"
    if importlib.util.find_spec("cuda") is None:
        return "no cuda-bindings: pip install 'drkernel[gpu]'"
    import torch

    return "" if torch.version.cuda else "torch is built without CUDA"


def pytest_collection_modifyitems(items):
    ours = [item for item in items if HERE in Path(item.fspath).parents]
    reason = why_not() if ours else ""
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def driver():
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    from kernelgym.cuda import device
    from kernelgym.cuda.driver import driver

    device.use()
    return driver()


@pytest.fixture
def bench(driver):
    from kernelgym.cuda import device
    from kernelgym.cuda.armed import Bench

    made = Bench.make(driver, device.use().l2_bytes)
    yield made
    made.close()
