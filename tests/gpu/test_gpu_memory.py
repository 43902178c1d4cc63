"""Pools and page on a real device."""

import os
import time

import torch

from kernelgym.cuda.page import DevicePage, Slot
from kernelgym.cuda.snapshot import Snapshot, Window
from kernelgym.cuda.vmm import VmmPool
from kernelgym.sandbox.pool import place_dense, view, write

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)


def test_an_imported_pool_is_the_same_memory(driver):
    ours = VmmPool(driver, 1 << 20)
    theirs = VmmPool(driver, 1 << 20, os.dup(ours.fileno()))
    values = [torch.randn(33, 7, device="cuda").to(dtype) for dtype in DTYPES]
    layouts, _ = place_dense(values)
    write(ours.flat, layouts, values)
    torch.cuda.synchronize()
    for layout, value in zip(layouts, values, strict=True):
        assert torch.equal(view(theirs.flat, layout), value)
    theirs.close()
    ours.close()


def test_memory_goes_back(driver):
    before = torch.cuda.mem_get_info()[0]
    for _ in range(5):
        pool = VmmPool(driver, 256 << 20)
        pool.flat.fill_(1)
        torch.cuda.synchronize()
        pool.close()
    assert torch.cuda.mem_get_info()[0] >= before - (64 << 20)


def test_a_stream_waits_for_the_page(driver):
    page = DevicePage(driver)
    stream = driver.stream()
    page.wait(stream, Slot.FLAG, 5)
    page.write(stream, Slot.END, 5)
    time.sleep(0.02)
    assert page.read(Slot.END) == 0
    page.set(Slot.FLAG, 5)
    page.poll(Slot.END, 5, time.perf_counter_ns() + int(2e9))
    torch.cuda.synchronize()
    page.close()


def test_a_snapshot_does_not_wait_for_kernels(driver, bench):
    pool, taker = VmmPool(driver, 1 << 20), Snapshot(driver)
    pool.flat.fill_(7)
    torch.cuda.synchronize()
    bench.kernels.spin(driver.stream(), 50_000_000)
    pool.flat.fill_(9)
    (seen,) = taker.take(pool.address, [Window(0, 64)])
    torch.cuda.synchronize()
    assert seen == b"\7" * 64
    assert pool.flat[:4].tolist() == [9] * 4
    taker.close()
    pool.close()
