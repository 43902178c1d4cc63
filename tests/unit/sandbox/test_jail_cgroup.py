"""Control groups on the real hierarchies of this machine, v1 or v2, as far as it has them."""

import os
import signal
from pathlib import Path

import pytest

from kernelgym.sandbox import cgroup, cgroup_places
from kernelgym.sandbox.jail_spec import JailSpec

SPEC = JailSpec("L1", 64 << 20, processes=7)


@pytest.fixture
def group():
    made = cgroup.create(SPEC)
    if made.name is None:
        pytest.skip(f"no control group to be had: {sorted(made.missing)}")
    yield made
    made.close()
    cgroup.kill_members(made.name)
    assert cgroup.remove(made.name)


def read(directory, *names):
    for name in names:
        if os.path.exists(f"{directory}/{name}"):
            return int(Path(f"{directory}/{name}").read_text())
    return None


def test_limits_are_set(group):
    values = {"memory": None, "pids": None}
    for directory in group.name.split(":"):
        memory = read(directory, "memory.max", "memory.limit_in_bytes")
        pids = read(directory, "pids.max")
        values = {"memory": memory or values["memory"], "pids": pids or values["pids"]}
    assert values["memory"] == (64 << 20 if "memory_cgroup" not in group.missing else None)
    assert values["pids"] == (8 if "pids_cgroup" not in group.missing else None)


def test_join_count_kill_remove(group):
    pid = os.fork()
    if pid == 0:
        group.join()
        signal.pause()
        os._exit(0)
    try:
        while cgroup.members(group.name) != {pid}:
            pass
        assert cgroup.count_members(group.name) == 1
        cgroup.kill_members(group.name)
    finally:
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert cgroup.members(group.name) == set()


def test_usage_of_a_group_that_held_something(group):
    if "memory_cgroup" in group.missing:
        pytest.skip("no memory controller")
    pid = os.fork()
    if pid == 0:
        group.join()
        held = b"x" * (16 << 20)
        os._exit(len(held) == 0)
    os.waitpid(pid, 0)
    usage = cgroup.usage(group.name)
    assert not usage.oom_killed
    assert usage.peak_bytes is None or usage.peak_bytes >= 16 << 20


def test_a_group_of_a_dead_worker_is_swept_and_one_of_a_live_worker_is_not(group):
    first = group.name.split(":")[0]
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    stale = f"{os.path.dirname(first)}/{cgroup.PREFIX}{child}-0"
    os.mkdir(stale)
    assert cgroup.sweep() >= 1
    assert not os.path.exists(stale)
    assert os.path.exists(first)


def test_a_limit_that_is_switched_off_makes_no_group():
    made = cgroup.create(JailSpec("L1", 1, without=("memory_cgroup", "pids_cgroup")))
    assert made.name is None
    assert made.missing == set()


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A v2 tree as plain files: what is read and written, without a kernel behind it."""
    monkeypatch.setattr(cgroup_places, "memberships", lambda: {"": "/top/own"})
    monkeypatch.setattr(cgroup_places, "mounts", lambda: {"": str(tmp_path)})
    monkeypatch.setattr(cgroup_places, "_SERVICE_MANAGER", str(tmp_path / "nobody"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def group(path, kind, procs, given):
        directory = tmp_path / path
        directory.mkdir(exist_ok=True)
        (directory / "cgroup.controllers").write_text("memory pids")
        (directory / "cgroup.subtree_control").write_text(given)
        (directory / "cgroup.procs").write_text(procs)
        if kind:
            (directory / "cgroup.type").write_text(kind)
        return directory

    group(".", "", "1 2", "memory pids")
    return group


def test_no_controller_is_asked_for_where_processes_are(tree, tmp_path):
    own = tree("top", "domain", "", "") and tree("top/own", "domain", "77", "")
    for controller in ("memory", "pids"):
        assert cgroup_places.parent(controller) == str(tmp_path / "top")
    assert (own / "cgroup.subtree_control").read_text() == ""


def test_a_threaded_group_takes_no_jail(tree, tmp_path):
    tree("top", "domain", "", "memory pids")
    tree("top/own", "domain threaded", "77", "pids")
    assert cgroup_places.parent("pids") == str(tmp_path / "top")
