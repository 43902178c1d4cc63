"""Programs that die, hang, leave children behind or never start; a supervisor that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LIMIT_S = 60.0


class Run:
    """A supervisor process and what it has done."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.process: subprocess.Popen[bytes] | None = None

    def code(self, name: str, then: str) -> str:
        """A program that writes down its process id and then does something."""
        path = str(self.tmp_path / name)
        return f"import os, time\nopen({path!r}, 'a').write(f'{{os.getpid()}}\\n')\n{then}"

    def pids(self, name: str) -> list[int]:
        path = self.tmp_path / name
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def ends(self) -> list[str]:
        path = self.tmp_path / "ends"
        return path.read_text().splitlines() if path.exists() else []

    def start(self, *programs: dict[str, Any]) -> None:
        order = {"ends": str(self.tmp_path / "ends"), "programs": programs}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "supervised.py"), json.dumps(order)],
            stderr=subprocess.PIPE,
        )

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_S)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    it = Run(tmp_path)
    yield it
    if it.process is not None:
        it.process.kill()
        it.process.wait()
        assert it.process.stderr is not None
        it.process.stderr.close()


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_dead_program_is_restarted_and_its_end_reported(run: Run) -> None:
    run.start({"name": "p", "code": run.code("p", "time.sleep(600)")})
    until(lambda: run.pids("p"), "a start")
    os.kill(run.pids("p")[0], signal.SIGKILL)
    until(lambda: len(run.pids("p")) == 2, "a second start")
    assert run.ends() == ["p 1"]
    assert run.stop() == 0
    assert all(gone(pid) for pid in run.pids("p"))
    assert run.ends() == ["p 1"], "a stop is not an unexpected end"


def test_hung_program_is_killed_and_restarted(run: Run) -> None:
    beat = "import sys\nfd = int(os.environ['KERNELGYM_BEAT_FD'])\n"
    beat += "for n in range(5): os.write(fd, b'.'); time.sleep(0.05)\n"
    hang = "if 'start 1' in sys.stdin.read(): time.sleep(600)\n"
    live = "while True: os.write(fd, b'.'); time.sleep(0.05)"
    run.start({"name": "p", "code": run.code("p", beat + hang + live), "beats_s": 4.0})
    until(lambda: len(run.pids("p")) == 2, "a restart")
    assert run.ends() == ["p 1"]
    assert run.stop() == 0


def test_what_a_program_leaves_behind_is_killed(run: Run) -> None:
    child = run.code("child", "time.sleep(600)")
    leave = "import subprocess, sys\n"
    leave += f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
    leave += "time.sleep(600)"
    run.start({"name": "p", "code": run.code("p", leave)})
    until(lambda: run.pids("child"), "a grandchild")
    os.kill(run.pids("p")[0], signal.SIGKILL)
    until(lambda: gone(run.pids("child")[0]), "the end of the grandchild")
    until(lambda: len(run.pids("child")) == 2, "a restart")
    assert run.stop() == 0
    assert all(gone(pid) for pid in run.pids("child"))


def test_program_that_ignores_sigterm_is_killed_in_the_end(run: Run) -> None:
    ignore = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    run.start({"name": "p", "code": ignore + run.code("p", "time.sleep(600)"), "grace_s": 0.5})
    until(lambda: run.pids("p"), "a start")
    assert run.stop() == 0
    assert gone(run.pids("p")[0])


def test_program_that_never_starts_is_given_up(run: Run) -> None:
    other = {"name": "other", "code": run.code("other", "time.sleep(600)")}
    run.start(other, {"name": "p", "code": run.code("p", "raise SystemExit(2)")})
    assert run.process is not None
    assert run.process.wait(LIMIT_S) == 3
    assert run.process.stderr is not None
    assert b"p does not start (exit status 2)" in run.process.stderr.read()
    assert len(run.pids("p")) == 5
    assert all(gone(pid) for pid in run.pids("other"))


def test_killed_supervisor_takes_its_programs_along(run: Run) -> None:
    run.start({"name": "p", "code": run.code("p", "time.sleep(600)")})
    until(lambda: run.pids("p"), "a start")
    assert run.process is not None
    run.process.kill()
    run.process.wait()
    until(lambda: gone(run.pids("p")[0]), "the end of the program")
