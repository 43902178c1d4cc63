"""What the scripts say on a machine that lacks something."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bare_path(tmp_path):
    """A PATH with a shell, make and Python, and no compiler."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("bash", "make", "id", "dirname", "env"):
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"no {name}")
        (directory / name).symlink_to(found)
    (directory / "python3").symlink_to(os.path.realpath(sys.executable))
    return directory


def run(path, *command):
    return subprocess.run(
        ["bash", *command], env={"PATH": str(path)}, cwd=ROOT,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_missing_compiler_is_named_with_the_way_to_get_it(bare_path):
    done = run(bare_path, "scripts/system-packages", "--check")
    assert done.returncode == 2
    error, step = done.stderr.splitlines()
    assert error.startswith("error: missing on this machine: gcc libc6-dev")
    assert step.startswith("  try: make system")


def test_demo_stops_there(bare_path):
    done = run(bare_path, "scripts/demo")
    assert done.returncode == 2
    assert "try: make system" in done.stderr
    assert done.stdout == ""


def test_missing_python_is_named(bare_path):
    (bare_path / "python3").unlink()
    done = run(bare_path, "scripts/system-packages", "--check")
    assert done.returncode == 2
    assert "python3 python3-dev python3-venv" in done.stderr


def test_headers_that_are_missing(bare_path, tmp_path):
    fake = tmp_path / "python3"
    fake.write_text('#!/usr/bin/env bash\n[ "$1" = - ] && exit 1\nexit 0\n')
    fake.chmod(0o755)
    (bare_path / "python3").unlink()
    (bare_path / "python3").symlink_to(fake)
    gcc = bare_path / "gcc"
    gcc.symlink_to("/bin/true")
    done = run(bare_path, "scripts/system-packages", "--check")
    assert done.returncode == 2
    assert done.stderr.startswith("error: missing on this machine: python3-dev\n")


def test_nothing_missing_says_nothing(bare_path):
    (bare_path / "gcc").symlink_to("/bin/true")
    fake = bare_path / "python3"
    fake.unlink()
    fake.symlink_to("/bin/true")
    done = run(bare_path, "scripts/system-packages", "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
