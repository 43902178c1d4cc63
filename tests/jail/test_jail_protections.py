"""One test a protection: with it switched off by name, something gets through that it stops.

So every name in docs/jail.md has a proof that it does something, and `JailSpec.without` works.
Where two protections stop the same thing, both have to be off for it to get through.
"""

import ctypes

import pytest
from stages import INTERPRETER_IN_TMP, L0_USER, L1_ROOT, MIB, stages

from kernelgym.sandbox.jail_spec import CONFINEMENT, NAMESPACES

ATTACKS = "kernelgym.sandbox.attacks"


def attack(stage, name, without, **target):
    spec = {"without": list(without)}
    return stage.run(f"{ATTACKS}.{name}", target=target, spec=spec)["answer"]


def facts(stage, without):
    return stage.run("facts", spec={"without": list(without)})["answer"]


def gets_through(stage, off, name, **target):
    assert attack(stage, name, (), **target) == []
    assert attack(stage, name, off, **target)


@stages(L1_ROOT)
def test_mount_namespace(stage):
    path = f"{stage.hidden}/reference.py"
    gets_through(stage, ["mount_namespace"], "files:read_hidden", read=[path])


@stages(L1_ROOT)
def test_pid_namespace(stage):
    gets_through(stage, ["pid_namespace"], "processes:see_processes")


@stages(L1_ROOT)
def test_private_proc(stage):
    gets_through(stage, ["private_proc"], "processes:see_processes")


@stages(L1_ROOT)
def test_net_namespace(stage, listeners):
    address = listeners["unix_addresses"][1]
    gets_through(stage, ["net_namespace"], "network:unix_sockets", unix_addresses=[address])


@stages(L1_ROOT)
def test_ipc_namespace(stage):
    libc = ctypes.CDLL(None)
    segment = libc.shmget(0, 4096, 0o600)
    assert segment >= 0
    try:
        assert stage.run("shared_segments")["answer"] == 0
        spec = {"without": ["ipc_namespace"]}
        assert stage.run("shared_segments", spec=spec)["answer"] >= 1
    finally:
        libc.shmctl(segment, 0, None)


@stages(L1_ROOT)
def test_uts_namespace(stage):
    assert facts(stage, [])["host"] == "jail"
    assert facts(stage, ["uts_namespace"])["host"] != "jail"


@stages(L1_ROOT)
def test_cgroup_namespace(stage):
    result = stage.run("nothing", spec={"without": ["cgroup_namespace"]})
    assert result["missing"] == ["cgroup_namespace"]


@stages(L1_ROOT)
def test_read_only_root_and_own_uid(stage):
    """Either alone keeps a guest from the system's files."""
    assert attack(stage, "files:write_outside", ["own_uid"], write=["/etc"]) == []
    assert attack(stage, "files:write_outside", ["read_only_root"], write=["/etc"]) == []
    both = ["own_uid", "read_only_root"]
    gets_through(stage, both, "files:write_outside", write=["/etc"])


@stages(L1_ROOT)
def test_hidden_directories(stage):
    path = f"{stage.hidden}/reference.py"
    gets_through(stage, ["hidden_directories"], "files:read_hidden", read=[path])


@stages(L1_ROOT)
def test_private_tmp(stage, tmp_path):
    assert set(facts(stage, [])["tmp"]) <= INTERPRETER_IN_TMP
    assert facts(stage, ["private_tmp"])["tmp"] != []


@stages(L1_ROOT)
def test_private_dev(stage):
    assert len(facts(stage, [])["dev"]) < len(facts(stage, ["private_dev"])["dev"])


@stages(L1_ROOT)
def test_no_capabilities(stage):
    gets_through(stage, ["no_capabilities"], "kernel:privileges")


@stages(L1_ROOT)
def test_no_new_privs(stage):
    assert facts(stage, ["no_new_privs"])["status"]["NoNewPrivs"] == "0"


@stages(L1_ROOT)
@pytest.mark.parametrize(
    "name", ["network:sockets", "kernel:refused_calls", "kernel:namespaces", "processes:trace"]
)
def test_seccomp(stage, name):
    gets_through(stage, ["seccomp", "not_dumpable"], name)


@stages(L0_USER)
def test_not_dumpable(stage):
    """It keeps a guest apart from another of the same user, where nothing else does."""

    def inspected(without):
        spec = stage.spec(without=without)
        held = stage.runner.ask(
            {"spec": spec, "call": "guests:remember", "hold": True, "limit_s": 0.0}
        )["held"]
        with open(f"/proc/{held}/task/{held}/children") as file:
            victim = int(file.read().split()[0])
        try:
            return attack(stage, "processes:inspect_outside", [], pids=[victim])
        finally:
            stage.runner.ask({"end": held})

    assert inspected([]) == []
    assert inspected(["not_dumpable"])


@stages(L1_ROOT)
def test_limits(stage):
    gets_through(stage, ["limits"], "inside:raise_limits")


@stages(L1_ROOT)
def test_memory_cgroup(stage):
    spec = {"memory_bytes": 64 * MIB, "without": ["memory_cgroup"]}
    call = f"{ATTACKS}.memory:private"
    assert stage.run(call, 128 * MIB, spec=spec)["answer"] == 128 * MIB


@stages(L1_ROOT)
def test_pids_cgroup_and_limits(stage):
    call = f"{ATTACKS}.memory:forks"
    for without in (["pids_cgroup"], ["limits"]):  # either alone is enough
        spec = {"processes": 20, "without": without}
        assert stage.run(call, 40, spec=spec)["answer"] <= 20
    spec = {"processes": 20, "without": ["pids_cgroup", "limits"]}
    assert stage.run(call, 40, spec=spec)["answer"] == 40


def test_every_protection_has_a_test():
    tests = " ".join(name for name in globals() if name.startswith("test_"))
    assert [name for name in NAMESPACES + CONFINEMENT if name not in tests] == []
