"""Kernels turned into no-ops, launches that are watched, memory that is filled."""

from __future__ import annotations

import pytest
import torch

from kernelgym.sandbox.evidence import Event
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.messages import Prepare

SOURCE = """
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def turned(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, 1 - 3 * tl.load(x + n - 1 - i, mask=i < n), mask=i < n)


@triton.jit
def half(x, out, start, BLOCK: tl.constexpr):
    i = start + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def in_a_tuple(pointers, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(pointers[1] + i, tl.load(pointers[0] + i))


@triton.jit
def described(x, out, BLOCK: tl.constexpr):
    out.store([0], x.load([0]))


@triton.jit
def nothing(x):
    tl.program_id(0)


@triton.jit
def broken(x):
    tl.load(x).no_such_attribute


class ModelNew(torch.nn.Module):
    def forward(self, x):
        a, b = torch.empty_like(x), torch.empty_like(x)
        double[(1,)](x, a, 64, 64)
        copy[(1,)](a, b, 64, 64)
        copy[(1,)](x, torch.empty_like(x), 64, 64)
        turned[(1,)](a, torch.empty_like(x), 64, 64)
        turned[(1,)](x, torch.empty_like(x), 64, 64)
        c = torch.empty_like(x)
        for start in (0, 32):
            half[(1,)](a, c, start, 32)
        in_a_tuple[(1,)]((a, torch.empty_like(x)), 64)
        in_a_tuple[(1,)]((x, torch.empty_like(x)), 64)
        ends = (TensorDescriptor.from_tensor(t, [64]) for t in (a, torch.empty_like(x)))
        described[(1,)](*ends, 64)
        nothing[(1,)](x)
        try:
            broken[(1,)](x)
        except Exception:
            pass
        return b
"""
X = torch.arange(1.0, 65.0)


@pytest.fixture
def driver(start):
    driver = start(SOURCE)
    driver.build()
    return driver


def call(driver, **prepare):
    driver.ask(Kind.PREPARE, Prepare(**prepare))
    value = driver.value(driver.call(X))
    return value, driver.evidence.take()


def names(records, event):
    return [record.name for record in records if record.event is event]


def test_all_own_kernels_off(driver):
    value, records = call(driver, suppress=("*",), fill=0)
    assert torch.equal(value, torch.zeros(64))
    launched = "double copy copy turned turned half half in_a_tuple in_a_tuple described"
    assert names(records, Event.LAUNCH) == [*launched.split(), "nothing", "broken"]


def test_one_kernel_off_and_only_for_one_call(driver):
    _, records = call(driver)
    digests = {r.name: r.digest.hex() for r in records if r.event is Event.LAUNCH}
    value, _ = call(driver, suppress=(digests["double"],), fill=0)
    assert torch.equal(value, torch.zeros(64))
    assert torch.equal(driver.value(driver.call(X)), 2 * X)


def test_memory_that_nobody_has_written_holds_the_byte(driver):
    value, _ = call(driver, suppress=("*",), fill=0xFF)
    assert bool(value.isnan().all())
    value, _ = call(driver, suppress=("*",), fill=0xA5)
    assert value.view(torch.uint8).unique().tolist() == [0xA5]


def test_what_launches_do_to_their_tensors(driver):
    value, records = call(driver, watch=True)
    assert torch.equal(value, 2 * X)
    # The second copy, and that in a tuple, are of an input.
    assert names(records, Event.COPY) == ["copy", "half", "half", "in_a_tuple", "described"]
    assert names(records, Event.RESCALED) == ["turned"]
    assert names(records, Event.IDLE) == ["nothing"]
    assert names(records, Event.FAILED) == ["broken"]
    _, records = call(driver)
    assert not names(records, Event.COPY) + names(records, Event.IDLE)


def test_threads_and_processes_are_counted(start):
    driver = start("""
import os, threading, time, torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        return x + 1
""")
    driver.build()
    output = driver.call(X)
    assert output.threads[1] == output.threads[0] + 1
    assert output.children[1] == output.children[0] + 1
