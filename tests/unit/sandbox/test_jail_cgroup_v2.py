"""Choice of a group in cgroup v2, on a tree of ordinary files that says what the kernel would.

Few machines that run the tests have a v2 hierarchy with controllers, and none may be rearranged for
a test. What the kernel answers to a write is not covered here (`test_jail_cgroup.py`, where there
is one; the GPU machine's results).
"""

import os
from pathlib import Path

import pytest

from kernelgym.sandbox import cgroup_places

ALL = "cpu memory pids"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Make groups; ``tree(path, ...)`` gives the directory, the deepest one is our own."""
    own = []

    def write(path, value):
        """As the kernel does: a controller is added, a process leaves the group it was in."""
        if path.endswith("subtree_control"):
            Path(path).write_text(f"{Path(path).read_text()} {value.lstrip('+')}".strip())
        else:
            for other in tmp_path.rglob("cgroup.procs"):
                left = [pid for pid in other.read_text().split() if pid != str(value)]
                other.write_text("\n".join(left))
            with open(path, "a") as file:
                file.write(f"\n{value}")

    monkeypatch.setattr(cgroup_places, "write", write)
    monkeypatch.setattr(cgroup_places, "mounts", lambda: {"": str(tmp_path)})
    monkeypatch.setattr(cgroup_places, "memberships", lambda: {"": own[-1]})
    monkeypatch.setattr(cgroup_places, "_SERVICE_MANAGER", str(tmp_path / "no-such"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def group(path, kind="domain", controllers=ALL, enabled="", procs=""):
        directory = tmp_path / path.strip("/")
        directory.mkdir(exist_ok=True)
        values = {
            "type": kind, "controllers": controllers, "subtree_control": enabled, "procs": procs,
        }  # fmt: skip
        for name, value in values.items():
            Path(directory, f"cgroup.{name}").write_text(value)
        own.append("/" + path.strip("/"))
        return str(directory)

    return group


def enabled(directory):
    return Path(directory, "cgroup.subtree_control").read_text()


def test_a_group_without_processes_is_asked_for_what_is_missing(tree):
    tree("", kind="")
    own = tree("own", enabled="memory")
    assert cgroup_places.parents() == {"memory": own, "pids": own}
    assert enabled(own) == "memory pids"


def test_a_group_with_processes_is_left_alone_and_its_parent_taken(tree):
    """Enabling ``pids`` there would make it threaded, and its children useless."""
    tree("", kind="")
    above = tree("above", enabled="memory pids")
    own = tree("above/own", procs="420\n424\n")
    assert cgroup_places.parents() == {"memory": above, "pids": above}
    assert enabled(own) == ""


def test_one_group_for_both_even_where_the_nearest_offers_one(tree):
    """A process is in one group: limits in two of them would undo each other."""
    tree("", kind="")
    above = tree("above", enabled="memory pids")
    tree("above/own", controllers="pids", enabled="pids")
    assert cgroup_places.parents() == {"memory": above, "pids": above}


def test_half_is_taken_where_there_is_no_more(tree):
    tree("", kind="", controllers="pids", enabled="pids")
    own = tree("own", controllers="pids", enabled="pids")
    assert cgroup_places.parents() == {"pids": own}


def test_a_threaded_group_offers_nothing(tree):
    tree("", kind="", controllers="")
    tree("own", kind="domain threaded", enabled="pids")
    assert cgroup_places.parents() == {}


def test_the_root_may_hold_processes(tree):
    root = tree("", kind="", procs="1\n2\n")
    assert cgroup_places.parents() == {"memory": root, "pids": root}


def test_an_ordinary_user_and_a_service_manager_keep_to_their_own_group(tree, monkeypatch):
    tree("", kind="", enabled="memory pids")
    own = tree("own", procs="420\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cgroup_places.parents() == {}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cgroup_places, "_SERVICE_MANAGER", own)
    assert cgroup_places.parents() == {}


def test_delegate_moves_processes_into_a_leaf_beside_which_jails_are_made(tree):
    tree("", kind="")
    own = tree("own", procs="420\n424\n")
    assert cgroup_places.delegate()
    assert Path(own, "kernelgym-worker", "cgroup.procs").read_text().split() == ["420", "424"]
    assert enabled(own) == "memory pids"
    tree("own/kernelgym-worker")
    assert cgroup_places.parents() == {"memory": own, "pids": own}


def test_delegate_moves_nobody_where_that_would_not_help(tree):
    tree("", kind="", controllers="hugetlb", procs="1\n")
    assert not cgroup_places.delegate()
    (own,) = cgroup_places.facts()["groups"]
    assert not os.path.exists(f"{own}/kernelgym-worker")


def test_delegate_leaves_to_systemd_what_it_has_not_delegated(tree, monkeypatch):
    tree("", kind="")
    own = tree("own", procs="420\n")
    monkeypatch.setattr(cgroup_places, "_SERVICE_MANAGER", own)
    assert not cgroup_places.delegate()
    assert not os.path.exists(f"{own}/kernelgym-worker")
    monkeypatch.setattr(
        os, "getxattr", lambda _path, name: b"1" if name == "user.delegate" else b""
    )
    assert cgroup_places.delegate()
    assert Path(own, "kernelgym-worker", "cgroup.procs").read_text().split() == ["420"]
