"""Driver wrapper, pools, page, snapshot: against the stand-in driver."""

import os
import random
import socket
import time

import pytest
import torch
from cuda_standin import GRANULARITY, Api, StandInDriver

from kernelgym.cuda import device, snapshot
from kernelgym.cuda.driver import CudaError, load_bindings
from kernelgym.cuda.page import DevicePage, HostPage, PageTimeout, Slot
from kernelgym.cuda.vmm import VmmPool
from kernelgym.errors import UsageError
from kernelgym.sandbox.pool import place_dense, view, write


@pytest.fixture
def driver():
    return StandInDriver()


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings.driver", None)
    with pytest.raises(UsageError, match="cuda-bindings") as caught:
        load_bindings()
    assert "drkernel[gpu]" in caught.value.hint


def test_a_failed_call_names_function_and_status(driver):
    driver.api.failures["cuMemAlloc"] = 2
    with pytest.raises(CudaError, match="cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY") as caught:
        driver.call("cuMemAlloc", 4)
    assert caught.value.out_of_memory


def test_device_facts(driver):
    facts = device.activate(driver)
    assert (facts.name, facts.capability, facts.l2_bytes) == ("stand-in, no GPU", 90, 1 << 20)
    assert facts.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert facts.peak_bytes_per_s == pytest.approx(4.917e12, rel=1e-3)
    assert facts.memory_bytes == 2 << 30


def test_a_device_that_cannot_share_memory_is_refused(driver):
    class Without(Api):
        @staticmethod
        def cuDeviceGetAttribute(value, _device):
            return Api.CUresult.CUDA_SUCCESS, 0

    with pytest.raises(CudaError, match="no memory can be shared"):
        device.activate(StandInDriver(Without()))


def test_a_pool_is_the_same_memory_on_both_sides(driver):
    ours = VmmPool(driver, 1000)
    assert ours.size == GRANULARITY
    assert ours.flat.numel() == GRANULARITY
    left, right = socket.socketpair()
    socket.send_fds(left, [b"x"], [ours.fileno()])
    _, (received,), _, _ = socket.recv_fds(right, 1, 1)
    theirs = VmmPool(StandInDriver(), 1000, received)
    values = [torch.arange(6, dtype=torch.bfloat16).reshape(2, 3), torch.tensor([True, False])]
    layouts, _ = place_dense(values)
    write(ours.flat, layouts, values)
    for layout, value in zip(layouts, values, strict=True):
        assert torch.equal(view(theirs.flat, layout), value)
    view(theirs.flat, layouts[0]).fill_(7)
    assert (view(ours.flat, layouts[0]) == 7).all()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(received)  # the importer took it over
    theirs.close()
    ours.close()
    left.close()
    right.close()


def test_one_descriptor_serves_many_and_the_memory_outlives_its_maker(driver):
    ours = VmmPool(driver, GRANULARITY)
    fd = ours.fileno()
    assert ours.fileno() == fd
    copies = [os.dup(fd), os.dup(fd)]
    ours.flat[:4] = 9
    ours.close()
    for copy in copies:
        pool = VmmPool(StandInDriver(), GRANULARITY, copy)
        assert pool.flat[:4].tolist() == [9] * 4
        pool.close()


def test_closing_gives_everything_back(driver):
    pool = VmmPool(driver, 5 * GRANULARITY)
    pool.fileno()
    pool.close()
    api = driver.api
    assert not api.handles
    assert not api.mapped
    assert not api.reserved
    assert api.log[-3:] == ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"]
    assert pool.flat.numel() == 0


@pytest.mark.parametrize(
    "function", ["cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemCreate"]
)
def test_a_pool_that_fails_half_way_leaves_nothing_behind(driver, function):
    driver.api.failures[function] = 2
    with pytest.raises(CudaError, match=function):
        VmmPool(driver, 1)
    assert not driver.api.handles
    assert not driver.api.mapped
    assert not driver.api.reserved


def test_a_descriptor_that_is_no_allocation_is_closed_and_refused(driver):
    driver.api.failures["cuMemImportFromShareableHandle"] = 1
    read, write_end = os.pipe()
    with pytest.raises(CudaError, match="Import"):
        VmmPool(driver, 1, read)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(read)
    os.close(write_end)


def test_a_page_is_seen_by_both_sides_and_compares_cyclically():
    ours = HostPage()
    theirs = HostPage(os.dup(ours.fileno()))
    ours.set(Slot.FLAG, 5)
    assert theirs.read(Slot.FLAG) == 5
    assert theirs.reached(Slot.FLAG, 5)
    assert theirs.reached(Slot.FLAG, 4)
    assert not theirs.reached(Slot.FLAG, 6)
    ours.set(Slot.FLAG, (1 << 32) + 2)  # wrapped: later than the largest word
    assert theirs.reached(Slot.FLAG, (1 << 32) - 1)
    assert not theirs.reached(Slot.FLAG, 3)
    ours.close()
    theirs.close()


def test_polling_ends_at_the_deadline_and_when_the_writer_is_gone():
    page = HostPage()
    start = time.perf_counter_ns()
    with pytest.raises(PageTimeout, match="did not reach"):
        page.poll(Slot.END, 1, start + 3_000_000)
    with pytest.raises(PageTimeout, match="gone"):
        page.poll(Slot.END, 1, start + int(60e9), alive=lambda: False)
    page.set(Slot.END, 1)
    assert page.poll(Slot.END, 1, 0) > start
    page.close()


def test_streams_wait_for_and_write_to_the_page(driver):
    page = DevicePage(driver)
    page.wait(0, Slot.FLAG, 3)
    page.write(0, Slot.END, 3)
    time.sleep(0.01)
    assert page.read(Slot.END) == 0
    page.set(Slot.FLAG, 3)
    page.poll(Slot.END, 3, time.perf_counter_ns() + int(5e9))
    page.close()
    assert not driver.api.registered


def test_windows_cover_small_outputs_whole_and_the_ends_of_large_ones():
    rng = random.Random(1)
    small = snapshot.draw_windows([(512, 100), (1024, 0)], rng)
    assert small == [snapshot.Window(512, 100)]
    large = snapshot.draw_windows([(0, 1 << 30), (1 << 30, 5000)], rng)
    assert len(large) <= snapshot.MAX_WINDOWS
    assert large[0].offset == 0
    assert any(w.offset + w.size == 1 << 30 for w in large)
    assert {w for w in large if w.offset >= 1 << 30} == {
        snapshot.Window(1 << 30, 4096),
        snapshot.Window((1 << 30) + 4096, 904),
    }
    many = snapshot.draw_windows([(i * 4096, 64) for i in range(500)], rng)
    assert len(many) == snapshot.MAX_WINDOWS


def test_a_snapshot_holds_what_was_there_when_it_was_taken(driver):
    pool = VmmPool(driver, GRANULARITY)
    pool.flat[:8192] = 0xA5
    taker = snapshot.Snapshot(driver)
    windows = [snapshot.Window(0, 4096), snapshot.Window(8190, 4)]
    before = taker.take(pool.address, windows)
    pool.flat[:8192] = 1
    assert before == [b"\xa5" * 4096, b"\xa5\xa5\0\0"]
    assert taker.take(pool.address, windows)[0] == b"\1" * 4096
    taker.close()
    pool.close()
