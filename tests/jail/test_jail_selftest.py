"""The worker's attack on its own jail: the level it reports, and that it fails closed."""

import json
import os
import subprocess
import sys

import pytest
from stages import HERE

from kernelgym.errors import SandboxError
from kernelgym.sandbox import selftest
from kernelgym.sandbox.jail import JailSpec

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the worlds are made by root")


def check(world, **spec):
    command = [sys.executable, HERE / "world.py", world, sys.executable, "-m"]
    spec = {"level": "L1", "memory_bytes": 256 << 20, **spec}
    environment = {**os.environ, "KERNELGYM_SELFTEST_SECRET": "canary"}
    done = subprocess.run(
        [*command, "kernelgym.sandbox.selftest", json.dumps(spec)],
        capture_output=True,
        timeout=120,
        env=environment,
    )
    answer = json.loads(done.stdout)
    assert (done.returncode == 0) == ("error" not in answer)
    return answer


@pytest.mark.parametrize(
    ("world", "level"), [("root", "L1"), ("user", "L1"), ("docker", "L0"), ("user", "L0")]
)
def test_the_level_that_is_reached(world, level):
    answer = check(world, level=level)
    assert answer["level"] == level
    assert answer["breaches"] == []


def test_below_the_level_asked_for_it_fails():
    assert "no jail of level L1" in check("docker")["error"]


def test_a_fallback_is_reported():
    assert check("docker", fallback=True)["level"] == "L0"


@pytest.mark.parametrize(
    ("without", "leak"),
    [
        (["seccomp"], "socket of family 2"),
        (["own_uid", "read_only_root"], "wrote /etc"),
        (["hidden_directories"], "read_hidden"),
        (["pid_namespace"], "see_processes"),
        (["no_capabilities"], "CapBnd"),
    ],
)
def test_a_jail_that_leaks_is_not_the_level(without, leak):
    # Not a folder of the checkout: one below /tmp is out of sight in any case.
    assert leak in check("root", without=without, hidden=["/usr/share/common-licenses"])["error"]


def test_check_runs_in_a_fresh_process():
    report = selftest.check(JailSpec("L1", 256 << 20))
    assert report.level == "L1"
    assert report.ready_ms > 0
    with pytest.raises(SandboxError, match="leaks"):
        selftest.check(JailSpec("L1", 256 << 20, without=("seccomp",)))
