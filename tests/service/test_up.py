"""`kernelgym up` as a person runs it: verdicts, every part killed once, a clean stop, no orphan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gym_under_test import wait_until
from processes import command_line, descendants
from whole_gym import kernelgym, whole_gym

CANDIDATES = Path(__file__).parents[2] / "examples" / "candidates"


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "KERNELGYM_STATE_DIR": str(tmp_path / "state")}


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with whole_gym(tmp_path / "state", "--slots", "1") as process:
        yield process


def submit(environment: dict[str, str], name: str, task: str) -> tuple[int, dict[str, object]]:
    command = kernelgym("submit", str(CANDIDATES / name), "--task", task, "--json", "--force")
    command += ["--trials", "2"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def kill(processes: set[int], words: bytes) -> None:
    """Kill the living one whose command has the words."""
    [pid] = [one for one in processes if not gone(one) and words in command_line(one)]
    os.kill(pid, signal.SIGKILL)


@pytest.mark.timeout(600)
def test_verdicts_killed_parts_clean_stop(
    up: subprocess.Popen[bytes], environment: dict[str, str]
) -> None:
    code, evaluation = submit(environment, "softmax.py", "builtin/softmax")
    assert (code, evaluation["state"]) == (0, "done"), evaluation

    everybody = descendants(up.pid)
    kill(everybody, b"kernelgym.worker.main")
    code, evaluation = submit(environment, "wrong_layer_norm.py", "builtin/layer_norm")
    assert code == 1, evaluation
    result = evaluation["result"]
    assert isinstance(result, dict)
    assert result["outcome"] == "mismatch"

    everybody |= descendants(up.pid)
    kill(everybody, b"broker.sock")
    kill(everybody, b"kernelgym.server.main")
    code, evaluation = submit(environment, "softmax.py", "builtin/softmax")
    assert (code, evaluation["state"]) == (0, "done"), evaluation

    everybody |= descendants(up.pid)
    assert len(everybody) >= 4, "broker, server, worker, zygote"
    up.send_signal(signal.SIGINT)
    assert up.wait(90) == 0
    wait_until(lambda: all(gone(pid) for pid in everybody), "the end of every process")
    assert not (Path(environment["KERNELGYM_STATE_DIR"]) / "address").exists()
