"""What a jailed process is given, what the host learns of its end, and what cannot outlive it."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from stages import (
    CONTROL,
    INTERPRETER_IN_TMP,
    JAILED,
    L0_DOCKER,
    L0_USER,
    L1_ROOT,
    L1_USER,
    MIB,
    NAMESPACED,
    stages,
)

from kernelgym.sandbox.jail import sweep

ALL = [*JAILED, CONTROL]


def processes_of(pid):
    """Pids whose ancestors include ``pid``, and it."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(name)] = int(
                Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]
            )
        except OSError:
            continue
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return {one for one in found if one in parents}
        found |= more


@stages(JAILED)
def test_confined(stage):
    facts = stage.run("facts")["answer"]
    assert facts["status"]["NoNewPrivs"] == "1"
    assert facts["status"]["Seccomp"] == "2"
    assert int(facts["status"]["CapEff"], 16) == 0
    assert int(facts["status"]["CapBnd"], 16) == 0
    assert facts["core"] == [0, 0]
    assert facts["session"] == facts["pid"]
    assert set(facts["environment"]) <= {
        "HOME",
        "TMPDIR",
        "USER",
        "LOGNAME",
        "LANG",
        "PATH",
        "LC_CTYPE",
    }
    assert facts["cwd"] == facts["environment"]["HOME"]
    assert facts["modules"] == []


@stages(NAMESPACED)
def test_namespaced(stage):
    facts = stage.run("facts")["answer"]
    assert facts["pid"] == 2
    assert facts["host"] == "jail"
    assert set(facts["tmp"]) <= INTERPRETER_IN_TMP
    assert set(facts["dev"]) == {
        "null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr",
    }  # fmt: skip


@stages(L1_ROOT)
def test_nothing_is_missing_as_root(stage):
    assert stage.run("nothing")["missing"] == []


@stages(L1_USER)
def test_what_a_user_namespace_cannot_give_is_named(stage):
    missing = stage.run("nothing")["missing"]
    assert missing == ["own_uid", "not_dumpable", "memory_cgroup", "pids_cgroup"]


@stages(L0_DOCKER)
def test_what_docker_cannot_give_is_named(stage):
    assert stage.run("nothing")["missing"] == ["memory_cgroup", "pids_cgroup"]


@stages(L0_DOCKER)
def test_l1_is_refused_where_it_cannot_be_had(stage):
    answer = stage.run("nothing", spec={"level": "L1"})
    assert "no jail of level L1" in answer["error"]


@stages(L0_DOCKER)
def test_a_lower_level_is_taken_only_when_asked_for_and_said(stage):
    result = stage.run("nothing", spec={"level": "L1", "fallback": True})
    assert result["level"] == "L0"


@stages(ALL)
def test_compiler_headers_and_late_imports_work(stage):
    assert stage.run("use_compiler")["answer"] == [42, 42]


@stages(L1_ROOT)
def test_the_interpreter_stays_when_everything_around_it_is_hidden(stage):
    import sys

    above = [str(Path(sys.prefix).parent), str(Path(sys.base_prefix).parent)]
    hidden = [stage.hidden, *above]
    assert stage.run("use_compiler", spec={"hidden": hidden})["answer"] == [42, 42]


@stages(L1_ROOT)
def test_a_readable_directory_shows_through_a_cover_and_is_read_only(stage, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    for directory in (tmp_path, tmp_path / "kept", tmp_path.parent):
        directory.chmod(0o755)
    kept = str(tmp_path / "kept")
    spec = {"readable": [kept]}
    call = "kernelgym.sandbox.attacks.files:read_hidden"
    assert stage.run(call, target={"read": [kept + "/file"]}, spec=spec)["answer"]
    call = "kernelgym.sandbox.attacks.files:write_outside"
    assert stage.run(call, target={"write": [kept]}, spec=spec)["answer"] == []


# --- the end --------------------------------------------------------------------------------------


@stages(ALL)
@pytest.mark.parametrize(
    ("call", "args", "status"),
    [
        ("nothing", [], 0),
        ("exit_with", [3], 3 << 8),
        ("leave_at_once", [7], 7 << 8),
        ("raise_error", [], 1 << 8),
        ("crash", [], signal.SIGSEGV),
        ("abort", [], signal.SIGABRT),
    ],
)
def test_the_wait_status_of_main_reaches_the_host(stage, call, args, status):
    result = stage.run(call, *args)
    assert result["status"] & ~0x80 == status  # 0x80: a core was dumped, which limits forbid
    assert result["survivors"] == 0


@stages(ALL)
def test_a_silent_process_is_killed_in_time(stage):
    result = stage.run("sleep", limit_s=0.3, grace_s=0.0)
    assert result["answer"] is None
    assert result["survivors"] == 0
    assert result["end_ms"] < 3000
    assert not result["descriptor_held"]


@stages(ALL)
def test_daemons_that_ignore_signals_and_hold_descriptors_die(stage):
    request = {"spec": stage.spec(), "call": "guests:daemonise", "args": [5], "hold": True}
    held = stage.runner.ask({**request, "limit_s": 0.5})["held"]
    time.sleep(0.3)
    tree = processes_of(held)
    if stage.case not in [L0_DOCKER, L0_USER, CONTROL]:
        assert len(tree) >= 1
    result = stage.runner.ask({"end": held})
    assert result["survivors"] == 0
    assert not result["descriptor_held"]
    deadline = time.monotonic() + 2
    while (left := alive(tree - {held})) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left


def alive(pids):
    found = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.add(pid)
    return found


@stages(ALL)
def test_a_main_that_ends_takes_its_daemons_along(stage):
    result = stage.run("daemonise", 5, limit_s=3.0)
    assert result["answer"] == "started"
    assert result["status"] == 0
    assert result["survivors"] == 0
    assert not result["descriptor_held"]


@stages(JAILED)
def test_a_fork_bomb_is_bounded_and_dies(stage):
    result = stage.run("fork_bomb", 20, limit_s=1.5, grace_s=0.0, spec={"processes": 32})
    assert result["survivors"] == 0
    assert not result["descriptor_held"]
    assert stage.run("nothing")["answer"] == "ok"


@stages(JAILED)
def test_the_keeper_cannot_be_stopped(stage):
    request = {"spec": stage.spec(), "call": "guests:stop_keeper", "hold": True}
    held = stage.runner.ask({**request, "limit_s": 5.0})["held"]
    result = stage.runner.ask({"end": held, "grace_s": 2.0})
    assert result["status"] == 0  # the keeper lived to tell
    assert result["survivors"] == 0
    if stage.case not in NAMESPACED:
        assert result["answer"] == []


@stages(CONTROL)
def test_without_a_jail_the_keeper_can_be_stopped(stage):
    request = {"spec": stage.spec(), "call": "guests:stop_keeper", "hold": True}
    held = stage.runner.ask({**request, "limit_s": 2.0})["held"]
    result = stage.runner.ask({"end": held})
    assert result["status"] is None or result["answer"]
    for left in Path("/tmp").glob(f"kernelgym-jail-{stage.runner.pid}-*"):
        shutil.rmtree(left)  # nobody was left to do it


# --- neighbours -----------------------------------------------------------------------------------


@stages(JAILED)
def test_a_guest_cannot_reach_another_guest(stage):
    request = {"spec": stage.spec(), "call": "guests:remember", "hold": True, "limit_s": 0.0}
    held = stage.runner.ask(request)["held"]
    time.sleep(0.2)
    victims = sorted(processes_of(held))
    try:
        for attack in ("processes:signal_outside", "processes:inspect_outside", "processes:trace"):
            call = f"kernelgym.sandbox.attacks.{attack}"
            assert stage.run(call, target={"pids": victims})["answer"] == []
    finally:
        result = stage.runner.ask({"end": held})
    assert result["survivors"] == 0


@stages(JAILED)
def test_a_secret_is_found_by_its_owner_and_by_no_other_guest(stage):
    call = {"call": "guests:hold_secret_and_scan", "args": [7, 1.5]}
    request = {"spec": stage.spec(), **call, "hold": True, "limit_s": 20.0}
    held = stage.runner.ask(request)["held"]
    time.sleep(0.5)
    other = stage.run("scan_for_secret", 7, limit_s=30)
    owner = stage.runner.ask({"end": held, "grace_s": 1.0})
    assert owner["answer"] == [True, 64]  # the control: the search does find what is there
    assert other["answer"] == []


@pytest.fixture
def mark():
    """A name for what a guest leaves behind; removed where the level does not."""
    name = f"left-by-guest-{os.urandom(4).hex()}"
    yield name
    for shared in ("/tmp", "/var/tmp", "/dev/shm"):
        shutil.rmtree(f"{shared}/{name}", ignore_errors=True)


@stages(L1_ROOT, L1_USER, L0_DOCKER)
def test_nothing_is_left_for_the_next_guest(stage, mark):
    assert stage.run("plant", ["/etc"], mark)["status"] == 0
    assert stage.run("find_planted", mark)["answer"] == []


@stages(CONTROL, JAILED)
def test_clean_up_follows_no_link(stage, mark):
    victim = Path(stage.hidden) / "victim"
    victim.mkdir(exist_ok=True)
    victim.chmod(0o777)
    (victim / "file").write_text("keep")
    (victim / "file").chmod(0o666)
    result = stage.run("plant", [str(victim), str(victim / "file"), "/etc/passwd"], mark)
    assert result["status"] == 0
    assert (victim / "file").read_text() == "keep"
    if stage.case not in NAMESPACED:
        deadline = time.monotonic() + 2
        while Path(result["answer"]).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not Path(result["answer"]).exists()


@stages(CONTROL)
def test_without_a_jail_things_are_left_behind(stage, mark):
    assert stage.run("plant", [], mark)["status"] == 0
    assert stage.run("find_planted", mark)["answer"]


@stages(JAILED)
def test_a_flood_of_output_costs_nothing(stage):
    result = stage.run("flood_stdout", 1024, grace_s=2.0)
    assert result["answer"] == 1024
    assert (result["peak_bytes"] or 0) < 128 * MIB


@pytest.mark.skipif(os.geteuid() != 0, reason="removes what others made")
def test_directories_of_dead_workers_are_swept():
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    stale, live = (Path(f"/tmp/kernelgym-jail-{pid}-test") for pid in (dead, os.getpid()))
    zygote = Path(f"/tmp/kernelgym-zygote-{dead}-test")
    for path in (stale, live, zygote):
        (path / "deep").mkdir(parents=True)
    (stale / "link").symlink_to(live)
    try:
        assert sweep() >= 2
        assert not stale.exists()
        assert not zygote.exists()
        assert (live / "deep").exists()
    finally:
        shutil.rmtree(live)
