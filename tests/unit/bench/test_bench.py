"""Reading candidates, run directories that are continued, summaries; judged by a stub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernelgym.bench.directory import RunDirectory, summary_of
from kernelgym.bench.samples import Sample, find_samples, submissions
from kernelgym.cli import bench as bench_verb
from kernelgym.cli.main import main
from kernelgym.errors import UsageError
from kernelgym.schema import EvalResult, Failure, Outcome, Submission, Task


def result(outcome: Outcome = Outcome.CORRECT, speedup: float | None = None) -> EvalResult:
    correct = outcome is Outcome.CORRECT
    failure = None if correct else Failure(stage="compare", code="value_mismatch")
    return EvalResult(task="t", outcome=outcome, correct=correct, failure=failure, speedup=speedup)


def test_kernelbench_runs_are_read_in_natural_order(tmp_path: Path) -> None:
    for level, problem, sample in ((1, 10, 0), (1, 2, 1), (1, 2, 0), (2, 1, 0)):
        name = f"level_{level}_problem_{problem}_sample_{sample}_kernel.py"
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / "eval_results.json").write_text("{}")
    (tmp_path / "level_1_problem_2_sample_0_prompt.txt").write_text("")
    found = [(one.task, one.number) for one in find_samples(tmp_path, "kernelbench")]
    assert found == [("level1/2", 0), ("level1/2", 1), ("level1/10", 0), ("level2/1", 0)]
    assert [one.task for one in find_samples(tmp_path, "kernelbench:level2")] == ["level2/1"]


def test_builtin_candidates_are_named_after_their_task(tmp_path: Path) -> None:
    for name in ("softmax.py", "softmax.2.py", "add.py", "not-a-task.py"):
        (tmp_path / name).write_text("x = 1\n")
    found = [(one.task, one.number) for one in find_samples(tmp_path, "builtin")]
    assert found == [("builtin/add", 0), ("builtin/softmax", 0), ("builtin/softmax", 2)]


@pytest.mark.parametrize("suite", ["nothing", "builtin:level1", "kernelbench"])
def test_nothing_to_judge_is_an_error(tmp_path: Path, suite: str) -> None:
    with pytest.raises(UsageError):
        find_samples(tmp_path, suite)


def test_each_task_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    asked: list[str] = []

    def find(name: str) -> Task:
        asked.append(name)
        return Task(name=name, reference="r")

    samples = [Sample(tmp_path / "a.py", "builtin/a", n) for n in range(3)]
    work = submissions(samples, find, {"trials": 2})
    assert asked == ["builtin/a"]
    assert [one.trials for one in work] == [2, 2, 2]


def test_run_is_continued_and_survives_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "run"
    sample = Sample(tmp_path / "a.py", "builtin/a", 0)
    run = RunDirectory(path, {"suite": "builtin"})
    run.add(sample, "h1", result(), "")
    run.add(Sample(tmp_path / "b.py", "builtin/b", 0), "h2", None, "worker lost")
    with (path / "results.jsonl").open("a") as file:
        file.write('{"task": "builtin/c", "sam')
    again = RunDirectory(path, {"suite": "builtin"})
    assert set(again.done()) == {("builtin/a", 0, "h1")}
    again.add(Sample(tmp_path / "c.py", "builtin/c", 0), "h3", result(), "")
    assert set(again.done()) == {("builtin/a", 0, "h1"), ("builtin/c", 0, "h3")}
    with pytest.raises(UsageError, match="another configuration"):
        RunDirectory(path, {"suite": "kernelbench"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match="holds no run"):
        RunDirectory(tmp_path / "other", {})


def test_summary_counts_only_what_was_judged() -> None:
    results = [result(speedup=1.1), result(speedup=1.6), result(Outcome.MISMATCH), None]
    summary = summary_of(results)
    assert (summary["candidates"], summary["judged"], summary["not_judged"]) == (4, 3, 1)
    assert summary["outcomes"] == {"correct": 2, "mismatch": 1}
    assert summary["fast_at"] == {"1": 2 / 3, "1.2": 1 / 3, "1.5": 1 / 3, "2": 0.0}
    assert summary_of([result()])["fast_at"] is None, "nothing was timed: no Fast@p, not zero"


def test_verb_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    candidates = tmp_path / "candidates"
    candidates.mkdir()
    for name in ("softmax.py", "add.py"):
        (candidates / name).write_text(f"# {name}\n")
    judged: list[str] = []

    def judge(work: list[Submission], report: Any, **options: Any) -> None:
        assert options["device"] == "cpu"
        for n, one in enumerate(work):
            judged.append(one.task.name)
            report(n, result() if len(judged) > 1 else None, "the gym failed")

    monkeypatch.setattr(bench_verb, "judge_here", judge)
    command = ["bench", str(candidates), "--suite", "builtin", "--device", "cpu", "--here"]
    command += ["--out", str(tmp_path / "run"), "--json"]
    assert main(command) == 3
    assert json.loads(capsys.readouterr().out)["not_judged"] == 1
    assert main(command) == 0
    assert judged == ["builtin/add", "builtin/softmax", "builtin/add"]
    assert json.loads(capsys.readouterr().out)["outcomes"] == {"correct": 2}
    assert main(command) == 0
    assert len(judged) == 3, "all is known"
    assert (tmp_path / "run" / "summary.json").exists()
