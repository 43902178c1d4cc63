"""The specification as data, and the guards that keep a kill inside the jail."""

import dataclasses
import json
import os

import pytest

from kernelgym.errors import SandboxError
from kernelgym.sandbox import reaping
from kernelgym.sandbox.jail import JailSpec, launch
from kernelgym.sandbox.jail_spec import ALWAYS, CONFINEMENT, IMPLIED, NAMESPACES, OPTIONAL


def test_json_round_trip():
    spec = JailSpec("L1", 1 << 30, hidden=("/a",), readable=("/b",), without=("limits",), gpu=True)
    assert JailSpec(**json.loads(json.dumps(dataclasses.asdict(spec)))) == spec


@pytest.mark.parametrize(
    "changes",
    [
        {"level": "L2"}, {"without": ("seecomp",)}, {"memory_bytes": 0}, {"processes": -1},
        {"tmp_bytes": 0},
    ],
)  # fmt: skip
def test_bad_specifications_are_refused(changes):
    with pytest.raises(ValueError, match=r"jail|protection|positive"):
        JailSpec(**{"level": "L1", "memory_bytes": 1, **changes})


def test_what_depends_on_a_protection_goes_with_it():
    spec = JailSpec("L1", 1, without=("mount_namespace",))
    assert set(spec.without) == {"mount_namespace", *IMPLIED["mount_namespace"]}


def test_names_are_distinct():
    names = [*ALWAYS, *NAMESPACES, *CONFINEMENT]
    assert len(names) == len(set(names))
    assert set(names) >= OPTIONAL


def test_standard_streams_cannot_be_kept():
    with pytest.raises(ValueError, match="0, 1 and 2"):
        launch(JailSpec("none", 1), lambda: None, [1])


def test_only_init_may_kill_everything():
    """Anywhere else it would be the whole machine."""
    assert not reaping.is_init()
    with pytest.raises(SandboxError):
        reaping.kill_namespace()


@pytest.mark.parametrize("uid", [None, 0, 1000, 65534, os.getuid(), reaping.FIRST_OWN_UID - 1])
def test_no_user_but_a_made_up_one_is_killed_as_a_whole(uid):
    assert not reaping.is_own(uid)
    assert reaping.is_own(reaping.FIRST_OWN_UID + 5)


def test_descendants_are_found_and_others_are_not():
    before = set(reaping.descendants(os.getpid()))
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        grandchild = os.fork()
        os.read(read_end, 1)
        if grandchild:
            os.waitpid(grandchild, 0)
        os._exit(0)
    try:
        for _ in range(1000):
            found = set(reaping.descendants(os.getpid())) - before
            if len(found) >= 2:
                break
        assert child in found
        assert len(found) == 2
        assert os.getppid() not in found
    finally:
        os.close(write_end)
        os.close(read_end)
        os.waitpid(child, 0)
