"""Huge pages: the same bytes in fewer page table entries, as far as the kernel goes along."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from kernelgym.sandbox import huge_pages

SIZE = 4 * huge_pages.HUGE_BYTES


@pytest.fixture
def memory():
    """Private memory, written page by page; its address and the mapping."""
    private = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    private.madvise(15)  # MADV_NOHUGEPAGE: small ones, whatever the machine's setting is
    for offset in range(0, SIZE, mmap.PAGESIZE):
        private[offset : offset + 8] = offset.to_bytes(8, "little")
    private.madvise(14)  # MADV_HUGEPAGE: may be collapsed
    address = ctypes.addressof(ctypes.c_char.from_buffer(private))
    yield address, private


def huge_kib(address):
    """What the kernel says about the mapping that holds an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if "-" in head and not head.endswith(":"):
            start, end = (int(part, 16) for part in head.split("-"))
            inside = start <= address < end
        elif inside and head == "AnonHugePages:":
            return int(line.split()[1])
    return 0


def test_memory_is_put_into_huge_pages_and_stays_the_same(memory):
    address, private = memory
    done = huge_pages._collapse_range(address, address + SIZE)
    if done == 0:
        pytest.skip("this kernel collapses nothing")
    middle = address + SIZE // 2
    assert huge_kib(middle) * 1024 >= huge_pages.HUGE_BYTES
    for offset in range(0, SIZE, mmap.PAGESIZE):
        assert private[offset : offset + 8] == offset.to_bytes(8, "little")


def test_a_fork_that_writes_does_not_show_in_its_parent(memory):
    address, private = memory
    huge_pages._collapse_range(address, address + SIZE)
    pid = os.fork()
    if pid == 0:
        private[:8] = b"child   "
        os._exit(private[mmap.PAGESIZE] == mmap.PAGESIZE & 0xFF)
    assert os.waitpid(pid, 0)[1] >> 8 == (private[mmap.PAGESIZE] == mmap.PAGESIZE & 0xFF)
    assert private[:8] == bytes(8)


def test_ranges_that_hold_no_whole_page_are_left_alone():
    assert huge_pages._collapse_range(4096, huge_pages.HUGE_BYTES) == 0


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("7f0000000000-7f0000400000 rw-p 00000000 00:00 0 ", True),
        ("55d000000000-55d000400000 rw-p 00000000 00:00 0                          [heap]", True),
        ("7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0                          [stack]", False),
        ("7f0000000000-7f0000400000 r--p 00000000 00:00 0 ", False),
        ("7f0000000000-7f0000400000 rw-s 00000000 00:01 12   /dev/zero (deleted)", False),
        ("7f0000000000-7f0000400000 rw-p 00001000 08:01 99   /usr/lib/libc.so.6", False),
    ],
)
def test_which_mappings(line, taken):
    assert (huge_pages._PRIVATE.match(line) is not None) is taken
