"""Hooks on Triton's compiled path, without a GPU: gate hand-over, launches, autotuning, errors."""

from __future__ import annotations

import os
import socket
import threading

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.compiler import CompiledKernel
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from kernelgym.sandbox.evidence import Event, unpack
from kernelgym.sandbox.frames import Channel, ChannelViolation, Kind
from kernelgym.trace import gate_hook, launches, standin
from kernelgym.trace.recorder import Recorder


@triton.jit
def good(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def bad(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), no_such_name)  # noqa: F821


@triton.autotune([triton.Config({"BLOCK": size}) for size in (32, 64, 128)], key=["n"])
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


X = torch.zeros(256)


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Triton with a driver that cannot launch, and launches that do nothing."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    monkeypatch.setattr(driver, "_active", standin.StandInDriver())
    for owner, name in (
        (JITFunction, "_do_compile"),
        (JITFunction, "run"),
        (CompiledKernel, "__getitem__"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # restored after the test
    monkeypatch.setattr(CompiledKernel, "_init_handles", lambda self: None)
    monkeypatch.setattr(CompiledKernel, "run", lambda self, *args: None)
    yield
    for kernel in (good, bad, tuned.fn):
        kernel.device_caches.clear()


@pytest.fixture
def recorder():
    read, write = os.pipe()
    recorder = Recorder(write)
    recorder.own.register("", good.fn.__code__)
    recorder.received = lambda: list(unpack(os.read(read, 1 << 16)))
    yield recorder
    os.close(read)
    os.close(write)


@pytest.fixture
def log(compiled):
    log: list[str] = []
    gate_hook.install(lambda: log.append("release"), lambda: log.append("acquire"))
    return log


def test_the_gate_is_given_back_around_each_compilation(log):
    good[(1,)](X, 5, BLOCK=64)
    assert log == ["release", "acquire"]
    good[(1,)](X, 5, BLOCK=64)
    assert log == ["release", "acquire"]
    good[(1,)](X, 5, BLOCK=128)
    assert log == ["release", "acquire"] * 2


def test_the_gate_is_taken_again_after_an_error(log):
    with pytest.raises(triton.compiler.errors.CompilationError):
        bad[(1,)](X, BLOCK=64)
    assert log == ["release", "acquire"]


def test_a_kernel_is_loaded_before_the_gate_is_taken_again(log, monkeypatch):
    kernel_class = triton.compiler.compiler.CompiledKernel
    monkeypatch.setattr(kernel_class, "_init_handles", lambda self: log.append("load"))
    good[(1,)](X, 5, BLOCK=64)
    assert log[:3] == ["release", "load", "acquire"]


def test_a_kernel_that_cannot_be_loaded_fails_at_its_launch(log, monkeypatch):
    def refuse(self):
        raise triton.runtime.errors.OutOfResources(2, 1, "shared memory")

    monkeypatch.setattr(triton.compiler.compiler.CompiledKernel, "_init_handles", refuse)
    gate_hook.load(good.warmup(X, 5, BLOCK=64, grid=(1,)))
    assert log == ["release", "acquire"]


def test_warming_up_and_a_disk_cache_go_through_the_hook(log):
    good.warmup(X, 5, BLOCK=64, grid=(1,))
    good.device_caches.clear()
    good.warmup(X, 5, BLOCK=64, grid=(1,))
    assert log == ["release", "acquire"] * 2


def test_every_configuration_of_an_autotuner_is_compiled_outside_the_gate(log):
    tuned[(1,)](X, 7)
    assert log == ["release", "acquire"] * 3


def test_the_hook_speaks_over_the_channel_and_waits_for_go(compiled, recorder):
    ours, theirs = socket.socketpair()
    judge, candidate = Channel(ours), Channel(theirs)
    recorder.call = 9
    gate_hook.install_over(candidate, recorder)
    seen = []

    def answer():
        for _ in range(2):
            frame = judge.receive()
            seen.append((frame.kind, frame.sequence))
        judge.send(Kind.GO, 9)

    thread = threading.Thread(target=answer)
    thread.start()
    good[(1,)](X, 5, BLOCK=32)
    thread.join()
    assert seen == [(Kind.COMPILING, 9), (Kind.COMPILED, 9)]
    judge.send(Kind.STOP, 9)
    with pytest.raises(ChannelViolation):
        good[(1,)](X, 5, BLOCK=16)
    judge.close()
    candidate.close()


def test_launches_are_recorded_by_every_road(compiled, recorder):
    launches.hook_compiled(recorder)
    good[(3,)](X, 5, BLOCK=64, num_warps=2)
    good[lambda meta: (meta["BLOCK"] // 16, 2)](X, 5, BLOCK=64)
    kernel = good.warmup(X, 5, BLOCK=128, grid=(1,), num_warps=8)
    kernel[(7, 1, 1)](X, 5)
    records = recorder.received()
    assert [record.grid for record in records] == [(3, 1, 1), (4, 2, 1), (7, 1, 1)]
    assert [record.num_warps for record in records] == [2, 4, 8]
    assert all(record.own and record.name == "good" for record in records)


def test_launches_of_an_autotuned_kernel_are_recorded_and_foreign_code_is_not_own(
    compiled, recorder
):
    launches.hook_compiled(recorder)
    tuned[(1,)](X, 7)
    records = recorder.received()
    assert records
    assert not any(record.own for record in records)


def test_a_launch_whose_compilation_fails_leaves_no_record(compiled, recorder):
    launches.hook_compiled(recorder)
    with pytest.raises(triton.compiler.errors.CompilationError):
        bad[(1,)](X, BLOCK=64)
    good[(1,)](X, 5, BLOCK=64)
    assert [record.name for record in recorder.received()] == ["good"]


def test_a_kernel_turned_off_is_launched_with_an_empty_grid(compiled, recorder, monkeypatch):
    grids = []
    monkeypatch.setattr(CompiledKernel, "run", lambda self, *args: grids.append(args[:3]))
    launches.hook_compiled(recorder)
    kernel = good.warmup(X, 5, BLOCK=64, grid=(1,))
    for suppressed in ((), ("*",), (recorder.own.digest(good.fn.__code__).hex(),), ("00",)):
        recorder.suppress(suppressed)
        good[(3, 2)](X, 5, BLOCK=64)
        kernel[(7, 1, 1)](X, 5)
    off = [(0, 2, 1), (0, 1, 1)]
    on = [(3, 2, 1), (7, 1, 1)]
    assert grids == on + off + off + on
    assert [record.grid for record in recorder.received()] == on * 4


def test_foreign_kernels_are_never_turned_off(compiled, recorder, monkeypatch):
    grids = []
    monkeypatch.setattr(CompiledKernel, "run", lambda self, *args: grids.append(args[:3]))
    launches.hook_compiled(recorder)
    recorder.suppress(("*",))
    tuned[(1,)](X, 7)
    assert set(grids) == {(1, 1, 1)}


def test_a_launch_that_raises_is_taken_back(compiled, recorder, monkeypatch):
    def fail(self, *args):
        raise RuntimeError("no device")

    monkeypatch.setattr(CompiledKernel, "run", fail)
    launches.hook_compiled(recorder)
    with pytest.raises(RuntimeError, match="no device"):
        good[(3,)](X, 5, BLOCK=64)
    assert [record.event for record in recorder.received()] == [Event.LAUNCH, Event.FAILED]


def test_the_compiled_kernel_of_an_own_launch_is_told(compiled, recorder):
    launches.hook_compiled(recorder)
    used: list[CompiledKernel] = []
    recorder.compiled_listeners.append(used.append)
    kernel = good[(1,)](X, 64, BLOCK=64)
    kernel[(1, 1, 1)](X, 64)
    tuned.fn[(1,)](X, 64, BLOCK=64)  # not own here
    assert used == [kernel, kernel]
    assert kernel.metadata.name == "good"
