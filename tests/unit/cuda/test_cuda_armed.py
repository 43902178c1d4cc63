"""Our kernels and the armed bracket: against the stand-in driver; PTX against ptxas."""

import subprocess
import time
from pathlib import Path

import pytest
import torch
from cuda_standin import GRANULARITY, StandInDriver

from kernelgym.cuda import armed, kernels
from kernelgym.cuda.driver import CudaError
from kernelgym.cuda.flush import Flush
from kernelgym.cuda.page import Slot
from kernelgym.cuda.vmm import VmmPool


@pytest.fixture
def driver():
    return StandInDriver()


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_ptxas_accepts_the_kernels(tmp_path, target):
    triton = pytest.importorskip("triton")
    ptxas = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    if not ptxas.exists():
        pytest.skip("this Triton brings no ptxas")
    source = tmp_path / "kernels.ptx"
    source.write_text(kernels.PTX)
    subprocess.run(
        [ptxas, f"-arch={target}", source, "-o", tmp_path / "out"], check=True, timeout=60
    )


def test_children_load_machine_code_that_fits_and_others_compile(driver, monkeypatch):
    triton = pytest.importorskip("triton")
    ptxas = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    if not ptxas.exists():
        pytest.skip("this Triton brings no ptxas")
    monkeypatch.setattr(kernels, "_IMAGES", [])
    assert kernels.assemble(str(ptxas), (80, 90, 1)) == 2  # there is no sm_1
    old, fitting = kernels._IMAGES
    assert old[:4] == fitting[:4] == b"\x7fELF"
    tried = []

    def call(name, *arguments):
        if name == "cuModuleLoadData":
            tried.append(arguments[0])
            if arguments[0] is old:
                raise CudaError(name, 209, "CUDA_ERROR_NO_BINARY_FOR_GPU")
        return 1

    monkeypatch.setattr(driver, "call", call)
    kernels.Kernels(driver)
    assert tried == [old, fitting]
    kernels._IMAGES.clear()
    kernels.Kernels(driver)
    assert tried[-1] == kernels.PTX.encode() + b"\0"


def test_parameters_of_a_launch(driver):
    ours = kernels.Kernels(driver)
    pool = VmmPool(driver, GRANULARITY)
    pool.flat[:64] = torch.arange(64, dtype=torch.uint8)
    ours.copy(0, pool.address + 4096, pool.address, 64)
    driver.call("cuCtxSynchronize")
    assert pool.flat[4096:4160].tolist() == list(range(64))
    name, grid, block, values = driver.api.launches[-1]
    assert (name, grid, block, values[2]) == (kernels.COPY, (1, 1, 1), (256, 1, 1), 4)
    ours.spin(0, 2_000_000)
    start = time.perf_counter()
    driver.call("cuCtxSynchronize")
    assert time.perf_counter() - start >= 0.001
    ours.close()
    pool.close()


def test_the_flush_is_twice_the_cache_and_resets_persisting_lines(driver):
    flush = Flush(driver, 100 << 20)
    assert flush.size == 200 << 20
    flush.queue(0)
    assert driver.api.log[-2:] == ["cuCtxResetPersistingL2Cache", "cuMemsetD32Async"]
    flush.close()
    assert Flush(driver, 1).size == 64 << 20


def test_nothing_of_a_bracket_runs_before_its_flag(driver):
    bench = armed.Bench.make(driver, 1 << 20)
    ran, copied = [], []

    def call(index):
        driver.enqueue(lambda: ran.append(index))
        return index * 10

    queued = armed.queue(
        bench, 7, 3, call, lambda results: driver.enqueue(lambda: copied.append(results))
    )
    assert queued.results == [0, 10, 20]  # the host is through, the device is parked
    time.sleep(0.01)
    assert not ran
    assert [bench.page.read(slot) for slot in (Slot.START, Slot.END, Slot.COPIED)] == [0, 0, 0]
    bench.page.set(Slot.FLAG, 7)
    assert queued.microseconds() >= 0
    bench.page.poll(Slot.COPIED, 7, time.perf_counter_ns() + int(5e9))
    assert ran == [0, 1, 2]
    assert copied == [[0, 10, 20]]
    assert bench.page.read(Slot.START) == bench.page.read(Slot.END) == 7
    bench.close()


def test_the_order_of_a_bracket(driver):
    bench = armed.Bench.make(driver, 1 << 20)
    driver.api.log.clear()
    bench.page.set(Slot.FLAG, 1)
    armed.queue(bench, 1, 2, lambda _: driver.api.log.append("call"))
    assert driver.api.log == [
        "cuMemsetD32Async",
        "cuStreamWaitValue32",
        "cuLaunchKernel",
        "cuStreamWriteValue32",
        "cuEventRecord",
        "cuEventRecord",
        "call",
        "cuEventRecord",
        "call",
        "cuEventRecord",
        "cuStreamWriteValue32",
        "cuStreamWriteValue32",
    ]
    bench.close()
