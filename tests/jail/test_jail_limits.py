"""Memory of every kind, processes, files: bounded by the jail, and unbounded without it."""

import errno

import pytest
from stages import CONTROL, JAILED, L0_DOCKER, L0_USER, L1_ROOT, L1_USER, MIB, NAMESPACED, stages

LIMIT = 96 * MIB
BOUND = 4 * LIMIT
SMALL = {"memory_bytes": LIMIT, "processes": 32, "tmp_bytes": 2 * BOUND}
SLACK = 2
"""Polling may overshoot; a cgroup may not."""


def bounded(stage, result):
    """The tree was killed, or was refused more than the limit."""
    got = result["answer"] or 0
    assert result["oom_killed"] or got <= LIMIT, result
    assert result["survivors"] == 0
    if stage.case == L1_ROOT:
        assert result["peak_bytes"] <= LIMIT


@stages(JAILED)
@pytest.mark.parametrize("kind", ["private", "shared", "memfd"])
def test_memory_is_bounded(stage, kind):
    result = stage.run(f"kernelgym.sandbox.attacks.memory:{kind}", BOUND, spec=SMALL)
    bounded(stage, result)


@stages(NAMESPACED)
@pytest.mark.parametrize("call", ["fill_shm", "fill_tmp", "shared_file_hoard"])
def test_files_in_memory_count_as_memory(stage, call):
    bounded(stage, stage.run(call, BOUND, spec=SMALL))


@stages(JAILED)
def test_memory_spread_over_processes_is_bounded(stage):
    bounded(stage, stage.run("spread_hoard", BOUND, 8, spec=SMALL))


@stages(JAILED)
def test_memory_cannot_be_hidden(stage):
    bounded(stage, stage.run("hidden_hoard", BOUND, spec=SMALL))


@stages(JAILED)
def test_the_number_of_processes_is_bounded(stage):
    result = stage.run("kernelgym.sandbox.attacks.memory:forks", 200, spec=SMALL)
    assert result["answer"] is None or result["answer"] <= 32, result
    assert result["survivors"] == 0


@stages(NAMESPACED)
@pytest.mark.parametrize("call", ["fill_shm", "fill_tmp"])
def test_private_directories_are_bounded(stage, call):
    result = stage.run(call, 64 * MIB, spec={"tmp_bytes": 16 * MIB})
    assert result["answer"] <= 16 * MIB
    assert result["status"] == 0


@stages(NAMESPACED)
def test_the_number_of_files_is_bounded(stage):
    result = stage.run("many_files", 400_000, limit_s=60)
    assert result["answer"] is None or result["answer"] < 250_000


@stages(JAILED)
def test_a_file_is_bounded(stage):
    result = stage.run("large_file", 8 * MIB, spec={"tmp_bytes": 4 * MIB})
    assert result["answer"] in (errno.EFBIG, errno.ENOSPC)


@stages(CONTROL)
@pytest.mark.parametrize("kind", ["private", "shared", "memfd"])
def test_without_a_jail_memory_is_not_bounded(stage, kind):
    result = stage.run(f"kernelgym.sandbox.attacks.memory:{kind}", BOUND, spec=SMALL)
    assert result["answer"] == BOUND


@stages(CONTROL)
def test_without_a_jail_files_and_processes_are_not_bounded(stage):
    assert stage.run("fill_shm", BOUND, spec=SMALL)["answer"] == BOUND
    assert stage.run("large_file", 8 * MIB, spec={"tmp_bytes": 4 * MIB})["answer"] == 0
    assert stage.run("kernelgym.sandbox.attacks.memory:forks", 40, spec=SMALL)["answer"] == 40


@stages(L1_ROOT)
@pytest.mark.parametrize("name", ["memory_cgroup", "pids_cgroup"])
def test_a_limit_that_is_switched_off_is_reported(stage, name):
    assert stage.run("nothing", spec={"without": [name]})["missing"] == [name]


@stages(L1_USER, L0_DOCKER, L0_USER)
def test_a_polled_limit_says_that_it_is_polled(stage):
    result = stage.run("nothing", spec=SMALL)
    assert "memory_cgroup" in result["missing"]


@stages(L1_USER)
def test_the_judge_may_make_anonymous_files_where_memory_is_polled(stage):
    call = "kernelgym.sandbox.attacks.memory:memfd"
    assert stage.run(call, 8 * MIB)["answer"] == 0
    assert stage.run(call, 8 * MIB, spec={"trusted": True})["answer"] == 8 * MIB
