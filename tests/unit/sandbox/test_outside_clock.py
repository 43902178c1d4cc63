"""Processor time of a tree from outside: threads, children, children that have ended."""

import os
import signal
import threading
import time
from contextlib import suppress

import pytest

from kernelgym.sandbox import outside_clock

WORK_NS = 60_000_000


def work() -> None:
    began = time.thread_time_ns()
    while time.thread_time_ns() - began < WORK_NS:
        pass


def in_thread() -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_child(*, ends: bool) -> None:
    pid = os.fork()
    if pid == 0:
        work()
        while not ends:
            signal.pause()
        os._exit(0)
    if ends:
        os.waitpid(pid, 0)


def spent_by(body) -> outside_clock.TreeClock:
    """Read below this process (as its keeper) while a child has done ``body`` and waits."""
    reader, writer = os.pipe()
    before_ns = outside_clock._reaped_ns(os.getpid())
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        body()
        os.write(writer, b"x")
        while True:
            signal.pause()
    with suppress(PermissionError):
        os.setpgid(pid, pid)
    try:
        os.read(reader, 1)
        deadline = time.monotonic() + 10.0
        while True:
            found = outside_clock.read(os.getpid())
            assert found is not None
            spent_ns = found.living_ns + found.reaped_ns - before_ns
            if spent_ns >= WORK_NS * 0.8 or time.monotonic() > deadline:
                return found
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("body", [work, in_thread, lambda: in_child(ends=False)])
def test_what_lives_counts_with_threads_that_have_ended(body):
    assert spent_by(body).living_ns >= WORK_NS * 0.8


def test_a_child_that_has_been_waited_for_counts():
    before = outside_clock._reaped_ns(os.getpid())
    found = spent_by(lambda: in_child(ends=True))
    assert found.reaped_ns - before >= WORK_NS // 2


def test_a_tree_that_is_not_there_is_not_known():
    assert outside_clock.read(2**22 + 1) is None
