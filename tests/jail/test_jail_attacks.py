"""Every attack of the library, at every level that promises to stop it; and without a jail.

The control is the same attack, in the same world as root, at level ``none``: it must get through,
or stopping it would prove nothing.
"""

import os
import socket
import sys
import sysconfig

import pytest
from stages import CONTROL, JAILED, L0_DOCKER, L0_USER, NAMESPACED, OWN_UID, SECRET, stages

from kernelgym.sandbox.attacks import ATTACKS

PATHS = [
    "/", "/etc", "/usr/bin", "/sys/kernel", "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/core_pattern", sys.prefix, sys.base_prefix, sysconfig.get_path("purelib"),
    os.__file__,
]  # fmt: skip


def run(stage, name, target):
    attack = ATTACKS[name]
    result = stage.run(f"{attack.__module__}:{attack.__name__}", target=target)
    assert result["survivors"] == 0
    return result


def stopped(stage, name, **target):
    result = run(stage, name, target)
    assert result["answer"] == [], result
    assert result["level"] == stage.case.level


@pytest.fixture
def host(stage, listeners):
    """What the host has: the launching process, a file to read, listeners."""
    return {
        "pids": [stage.runner.pid],
        "write": PATHS,
        "read": [f"{stage.hidden}/reference.py", listeners["directory"]],
        "tcp_port": listeners["tcp_port"],
        "unix_addresses": listeners["unix_addresses"],
        "secret": SECRET,
        "descriptors": [],
    }


@stages(NAMESPACED, L0_DOCKER)
def test_nothing_of_the_system_can_be_written(stage, host):
    stopped(stage, "write_outside", **host)


@stages(L0_USER)
def test_an_ordinary_user_cannot_write_the_system_either(stage, host):
    stopped(stage, "write_outside", write=["/etc", "/usr/bin", "/sys/kernel", sys.base_prefix])


@stages(NAMESPACED)
@pytest.mark.parametrize("name", ["devices", "see_processes"])
def test_only_namespaces_hide_devices_and_processes(stage, host, name):
    stopped(stage, name, **host)


@stages(NAMESPACED)
def test_tasks_are_hidden(stage, listeners):
    home = [f"/root/{name}" for name in os.listdir("/root") if os.path.isfile(f"/root/{name}")]
    covered = [f"{stage.hidden}/reference.py", stage.hidden, "/run", "/var/tmp", *home]
    stopped(stage, "read_hidden", pids=[stage.runner.pid], read=covered)


@stages(JAILED)
@pytest.mark.parametrize(
    "name",
    [
        "leave_cgroup", "signal_outside", "inspect_outside", "trace", "sockets", "namespaces",
        "change_mounts", "privileges", "refused_calls", "environment", "raise_limits",
    ],
)  # fmt: skip
def test_every_level_stops(stage, host, name):
    stopped(stage, name, **host)


@stages(JAILED)
def test_unix_sockets_of_the_host_are_out_of_reach(stage, host):
    addresses = host["unix_addresses"]
    if stage.case in NAMESPACED:  # a path in a directory that is not covered stays reachable
        addresses = [a for a in addresses if a.startswith("@")]
    stopped(stage, "unix_sockets", unix_addresses=addresses)


@stages(L0_DOCKER, L0_USER, CONTROL)
def test_cuda_may_listen_at_l0_and_nothing_can_be_connected_to(stage):
    """cuInit fails where it may not listen; the control shows that the attempt can succeed."""
    address = f"\0kernelgym-test-seqpacket-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(8)
        result = stage.run("listen_as_cuda", address, spec={"gpu": True})
    outside = address.replace("\0", "@") in (result["answer"] or [])
    assert outside if stage.case is CONTROL else result["answer"] == [], result


@stages(NAMESPACED)
def test_unix_sockets_in_covered_directories_are_out_of_reach(stage, listeners):
    addresses = listeners["unix_addresses"]
    spec = {"hidden": [listeners["directory"]]}
    result = stage.run(
        "kernelgym.sandbox.attacks.network:unix_sockets",
        target={"unix_addresses": addresses},
        spec=spec,
    )
    assert result["answer"] == []


@stages(JAILED)
def test_no_descriptor_is_inherited(stage):
    result = run(stage, "descriptors", {})
    assert len(result["answer"]) == 1, result  # the one through which it answers
    assert "pipe:" in result["answer"][0]


# --- controls -------------------------------------------------------------------------------------


@stages(CONTROL)
@pytest.mark.parametrize(
    "name",
    [
        "write_outside", "read_hidden", "devices", "leave_cgroup", "see_processes",
        "signal_outside", "inspect_outside", "trace", "sockets", "unix_sockets", "namespaces",
        "change_mounts", "privileges", "refused_calls", "raise_limits",
    ],
)  # fmt: skip
def test_without_a_jail_the_attack_gets_through(stage, host, name):
    assert run(stage, name, host)["answer"]


@stages(CONTROL)
def test_without_a_jail_every_kind_of_socket_attack_gets_through(stage, host):
    got = run(stage, "unix_sockets", host)["answer"]
    assert len(got) == 4, got
    assert "connected to the host's loopback" in run(stage, "sockets", host)["answer"]


@stages(CONTROL)
def test_without_a_jail_every_way_into_a_process_is_open(stage, host):
    got = " ".join(run(stage, "inspect_outside", host)["answer"])
    for name in ("mem", "maps", "environ", "fd", "limits", "compared"):
        assert name in got


def test_the_secret_is_there_to_be_found(runners):
    """The environment is cleaned at every level, so the control is the host's own process."""
    runner = runners("root")
    with open(f"/proc/{runner.pid}/environ", "rb") as file:
        assert SECRET.encode() in file.read()


@stages(OWN_UID)
def test_the_guest_has_a_user_of_its_own(stage):
    first, second = (stage.run("facts")["answer"] for _ in range(2))
    assert first["uid"] != second["uid"]
    assert first["uid"] >= 0x70000000
    assert first["groups"] == []
