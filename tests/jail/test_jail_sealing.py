"""Device nodes that a jail's guest has sealed open no more, by no path; what is open stays open."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from kernelgym.sandbox import sealing

GUEST = """
import os, sys
from kernelgym.sandbox import sealing
from kernelgym.sandbox.jail import end, launch
from kernelgym.sandbox.jail_spec import JailSpec

sealing.NODES = "/dev/zero"
read, write = os.pipe()

def opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.strerror
    return "opens"

def main():
    fd = os.open("/dev/zero", os.O_RDWR)
    before = opens("/dev/zero")
    said = sealing.seal(), sealing.seal()
    paths = ("/dev/zero", f"/proc/self/fd/{fd}", "/dev/null")
    found = (before, said, [opens(path) for path in paths], len(os.read(fd, 5)))
    os.write(write, repr(found).encode())

launched = launch(JailSpec(sys.argv[1], 1 << 30, seals=True), main, [write])
os.close(write)
sys.stdout.write(os.read(read, 9999).decode())
end(launched, grace_s=5.0)
"""


def run(level: str) -> tuple:
    done = subprocess.run(
        [sys.executable, "-c", GUEST, level], capture_output=True, text=True, check=True, timeout=60
    )
    return ast.literal_eval(done.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="a jail of namespaces is made by root here")
def test_what_was_open_stays_open_and_nothing_opens_any_more():
    before, said, after, read = run("L1")
    assert before == "opens"
    assert said == ("", sealing.NOT_HERE)  # once
    assert after == ["Permission denied", "Permission denied", "opens"]
    assert read == 5


def test_without_a_mount_namespace_it_says_that_it_is_not_done():
    _, said, after, _ = run("none")
    assert said == (sealing.NOT_HERE, sealing.NOT_HERE)
    assert after == ["opens", "opens", "opens"]


ATTACK = """
import sys
from kernelgym.sandbox import sealing, selftest
from kernelgym.sandbox.jail_spec import JailSpec

sealing.NODES = "/dev/zero"
spec = JailSpec("L1", 1 << 28, seals=True, without=tuple(sys.argv[1:]))
with selftest.planted(spec) as target:
    print(selftest.run_jailed(spec, "devices", target).answer)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a jail of namespaces is made by root here")
@pytest.mark.parametrize("without", [[], ["private_dev"]])
def test_the_self_test_tries_nodes_that_are_to_be_sealed(without):
    command = [sys.executable, "-c", ATTACK, *without]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ("opened /dev/zero" in ast.literal_eval(done.stdout)) == bool(without)


def test_a_keeper_that_goes_away_is_an_answer():
    ours, theirs = sealing.pair()
    sealing.hold(theirs)
    ours.close()
    assert "keeper" in sealing.seal()
