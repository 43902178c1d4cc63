"""drkernel on real evaluations, without a GPU: the teacher's kernels are right, and runs that are
killed at any moment go on to the same end."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from drkernel.collect.teacher.reading import read_reference
from drkernel.collect.teacher.writing import Plan, write_decoy, write_module
from kernelgym.client.here import LocalEvaluator
from kernelgym.schema import Outcome, Submission
from kernelgym.tasks.synth.compose import compose
from kernelgym.tasks.task import find_task

SOLVED = ("builtin/softmax", "builtin/mlp", "builtin/rms_norm", "builtin/swiglu")
_RUN = "import sys; from drkernel.cli.main import run; run()"
_CALM = ("--policy.name", "teacher", "--policy.teacher.wrong", "0", "--policy.teacher.cut", "0.5")
_SMALL = (
    "--tasks.source", "builtin/add", "builtin/softmax", "--episode.judging.trials", "1",
    "--gym.server", "here", "--quiet", "--policy.teacher.relapse", "0",
)  # fmt: skip


@pytest.mark.parametrize("language", ["triton", "numba"])
async def test_the_teachers_modules_are_judged_correct(language: str) -> None:
    draft = compose(3, 6, range(1, 5))
    assert draft is not None
    tasks = [find_task(name) for name in SOLVED] + [draft.record.task("base", "lint")]
    async with LocalEvaluator(device="cpu", concurrency=1) as gym:
        for task in tasks if language == "triton" else tasks[:2]:
            reference = read_reference(task.reference)
            assert reference is not None
            for level in (1, 3):
                source = write_module(reference, Plan(level=level), language)  # type: ignore[arg-type]
                result = await gym.evaluate(
                    Submission(task=task, source=source, backend=language, trials=1)
                )
                assert result is not None
                assert result.correct, (task.name, level, result.failure)
        reference = read_reference(tasks[0].reference)
        assert reference is not None
        decoy = write_decoy(reference, Plan(), language)  # type: ignore[arg-type]
        result = await gym.evaluate(
            Submission(task=tasks[0], source=decoy, backend=language, trials=1)
        )
        assert result is not None
        assert result.outcome is Outcome.HACK


def _start(tokens: list[str]) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("COV_", "PYTEST"))}
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, *tokens],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def _finish(tokens: list[str]) -> None:
    process = _start(tokens)
    said, _ = process.communicate(timeout=250)
    assert process.returncode == 0, said


def _kill_after(tokens: list[str], out: Path, turns: int) -> None:
    """Kill -9 once so many turns are on disk."""
    process = _start(tokens)
    deadline = time.monotonic() + 200
    while sum(_turn_lines(path) for path in out.rglob("*.jsonl")) < turns:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def _turn_lines(path: Path) -> int:
    return path.read_bytes().count(b'"kind":"turn"')


def _facts(out: Path) -> dict[str, Counter[tuple[str, int, str, str]]]:
    """Of every log: each turn that was written whole, how often, with its code and outcome."""
    found = {}
    for path in sorted(out.rglob("*.jsonl")):
        turns: Counter[tuple[str, int, str, str]] = Counter()
        for line in path.read_text().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record.get("kind") == "turn":
                turn = record["turn"]
                outcome = turn["result"]["outcome"] if turn["result"] else turn["status"]
                code = turn["extraction"]["code"] or ""
                turns[record["head"]["id"], turn["index"], code, outcome] += 1
        found[str(path.relative_to(out))] = turns
    return found


def _table(out: Path) -> list[list[str]]:
    with (out / "table.csv").open() as file:
        return list(csv.reader(file))


VERBS = {
    "collect": (["collect", "--episode.turns", "3", "--select.hacks", "allow"], 3),
    "eval": (["eval", "--samples", "2", "--episode.turns", "2"], 3),
    "scale": (
        ["scale", "--max-turns", "2", "--w", "1", "--iterations", "2", "--arms", "top"],
        6,
    ),
}


@pytest.mark.timeout(900)  # three starts of a gym; minutes where cores are shared
@pytest.mark.parametrize("verb", list(VERBS))
def test_killed_and_resumed_runs_end_like_others(verb: str, tmp_path: Path) -> None:
    tokens, turns = VERBS[verb]
    tokens = [*tokens, *_SMALL, *_CALM]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    _finish([*tokens, "--out", str(whole)])
    _kill_after([*tokens, "--out", str(killed)], killed, turns)
    before = _facts(killed)
    _finish([*tokens, "--out", str(killed), "--resume"])
    after = _facts(killed)
    assert after == _facts(whole)
    assert all(count == 1 for log in after.values() for count in log.values())
    assert all(not log - after[name] for name, log in before.items())
    assert (
        0 < sum(log.total() for log in before.values()) < sum(log.total() for log in after.values())
    )
    if verb == "collect":
        rows = [pq.read_table(run / "trajectories.parquet") for run in (whole, killed)]
        assert rows[0].num_rows > 0
        assert rows[0].drop(["timestamp"]).equals(rows[1].drop(["timestamp"]))
        assert (whole / "statistics.json").read_text() == (killed / "statistics.json").read_text()
        assert (whole / "README.md").read_text() == (killed / "README.md").read_text()
    else:
        assert _table(whole) == _table(killed)
        names = sorted(path.name for path in (whole / "figures").glob("*.csv"))
        assert names
        for name in names:
            assert (whole / "figures" / name).read_text() == (killed / "figures" / name).read_text()
