"""The command line: exit codes, errors with a next step, light imports. No evaluation runs here."""

import json
import subprocess
import sys

import pytest

from kernelgym.cli import device, evaluate
from kernelgym.cli.main import main
from kernelgym.errors import ServiceError
from kernelgym.schema import EvalResult, Failure, Provenance, Trial

REFERENCE = "class Model:\n    pass\n"
CANDIDATE = "class ModelNew:\n    pass\n"


@pytest.fixture
def candidate(tmp_path):
    path = tmp_path / "cand.py"
    path.write_text(CANDIDATE)
    return path


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(device, "gpu_indices", list)


@pytest.fixture
def judged(monkeypatch, no_gpu):
    """Replace the evaluation by one that records the submission and returns a given result."""
    seen = {}

    def fake(submission, where, jail):
        seen.update(submission=submission, where=where, jail=jail)
        outcome = seen.get("outcome", "correct")
        failure = None if outcome == "correct" else Failure(stage="s", code="some_code")
        return EvalResult(
            task=submission.task.name,
            outcome=outcome,
            correct=outcome == "correct",
            failure=failure,
            trials=(Trial(index=0, mode="eval", passed=True),),
            provenance=Provenance(source_hash=submission.source_hash, jail=jail),
        )

    monkeypatch.setattr(evaluate, "_evaluate", fake)
    return seen


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("correct", 0), ("mismatch", 1), ("timeout", 1), ("crash", 1), ("infrastructure", 3)],
)
def test_exit_code_follows_the_outcome(judged, candidate, capsys, outcome, code):
    judged["outcome"] = outcome
    assert main(["eval", str(candidate), "--task", "builtin/add"]) == code
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1].startswith(outcome)
    assert "judging" in shown.err


def test_json_is_the_result_and_nothing_else(judged, candidate, capsys):
    assert main(["eval", str(candidate), "--task", "builtin/add", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["outcome"] == "correct"
    assert {
        "outcome", "correct", "speedup", "reference_ms", "kernel_ms", "coverage", "displaced",
        "findings", "failure", "trials", "profile", "provenance",
    } <= set(record)  # fmt: skip


def test_options_reach_the_submission(judged, candidate, tmp_path):
    reference = tmp_path / "ref.py"
    reference.write_text(REFERENCE)
    line = (
        f"eval {candidate} --reference {reference} --backend torch --device cpu --protocol strict"
    )
    line += " --precision bf16 --jail L0 --trials 3 --timeout 7.5 --memory 512 --target 80 100"
    line += " --entry-point Mine --baseline torch_compile"
    assert main(line.split()) == 0
    submission = judged["submission"]
    assert (submission.task.reference, submission.source) == (REFERENCE, CANDIDATE)
    assert (submission.backend, submission.protocol, submission.precision) == (
        "torch", "strict", "bf16",
    )  # fmt: skip
    assert (submission.trials, submission.timeout_s, submission.memory_mb) == (3, 7.5, 512)
    assert (submission.targets, submission.entry_point) == ((80, 100), "Mine")
    assert submission.baseline == "torch_compile"
    assert (judged["where"], judged["jail"]) == ("cpu", "L0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("CAND --task builtin/ad", "did you mean builtin/add?"),
        ("CAND --task level2/40", "needs --root"),
        ("CAND", "exactly one of --reference and --task"),
        ("CAND --task builtin/add --reference r.py", "exactly one of"),
        ("CAND --reference missing.py", "no such file: the reference missing.py"),
        ("missing.py --task builtin/add", "no such file: the candidate missing.py"),
        ("/ --task builtin/add", "is a directory"),
        ("/bin/true --task builtin/add", "binary file"),
        ("CAND --task builtin/add --backend tritn", "unknown backend 'tritn'"),
        ("CAND --task builtin/add --backend cuda9", "unknown backend 'cuda9'"),
        ("CAND --task builtin/add --device tpu", "unknown device 'tpu'"),
        ("CAND --task builtin/add --device cuda:3", "no GPU 3 on this machine: there is none"),
        ("CAND --task builtin/add --trials 0", "--trials"),
        ("CAND --task builtin/add --timeout -1", "--timeout"),
        ("CAND --task builtin/add --memory 1", "--memory"),
        ("CAND --task builtin/add --entry-point", "--entry-point"),
        ("CAND --task builtin/add --protocl strict", "Did you mean --protocol?"),
        ("CAND --task builtin/add --protocol loose", "strict"),
        ("CAND --task builtin/add --trials many", "many"),
    ],
)
def test_usage_error_is_one_clear_line_with_a_next_step(
    judged, candidate, capsys, monkeypatch, tmp_path, arguments, words
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELBENCH_DIR", raising=False)
    assert main(["eval", *arguments.replace("CAND", str(candidate)).split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    error, step = shown.err.splitlines()[-2:]
    assert error.startswith("error: ")
    assert words in error
    assert step.startswith("  try: ")
    assert "submission" not in judged


def test_ten_megabytes_of_source(judged, tmp_path, capsys):
    path = tmp_path / "huge.py"
    path.write_bytes(b"# filler\n" * (10_000_000 // 9))
    assert main(["eval", str(path), "--task", "builtin/add"]) == 2
    assert "at most 1,000,000 are accepted" in capsys.readouterr().err


def test_unknown_verb_suggests_the_near_one(capsys):
    assert main(["evla"]) == 2
    assert 'Did you mean "eval"' in capsys.readouterr().err


def test_service_error_has_code_3_and_its_hint(judged, candidate, capsys, monkeypatch):
    def broken(*_):
        raise ServiceError("the jail L1 cannot be reached", hint="kernelgym eval ... --jail L0")

    monkeypatch.setattr(evaluate, "_evaluate", broken)
    assert main(["eval", str(candidate), "--task", "builtin/add"]) == 3
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "error: the jail L1 cannot be reached",
        "  try: kernelgym eval ... --jail L0",
    ]


def test_missing_torch_is_said_before_anything_starts(judged, candidate, capsys, monkeypatch):
    monkeypatch.setattr(evaluate.importlib.util, "find_spec", lambda _: None)
    assert main(["eval", str(candidate), "--task", "builtin/add"]) == 3
    assert capsys.readouterr().err.splitlines() == [
        "error: torch and triton not installed: an evaluation on this machine needs them",
        "  try: pip install 'drkernel[worker]'",
    ]


def test_interrupt_has_the_shell_s_code(judged, candidate, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate, "_evaluate", interrupted)
    assert main(["eval", str(candidate), "--task", "builtin/add"]) == 130


def test_auto_takes_the_first_gpu_there_is(monkeypatch):
    monkeypatch.setattr(device, "gpu_indices", lambda: [2, 5])
    assert device.resolve_device("auto") == "cuda:2"
    assert device.resolve_device("cuda:5") == "cuda:5"
    assert device.resolve_device("cpu") == "cpu"
    monkeypatch.setattr(device, "gpu_indices", list)
    assert device.resolve_device("auto") == "cpu"


def test_tasks_list_as_table_and_as_json(capsys):
    assert main(["tasks", "list"]) == 0
    assert "builtin/softmax" in capsys.readouterr().out
    assert main(["tasks", "list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) >= 20


def modules_after(code):
    line = f"import sys\n{code}\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, timeout=60, check=True
    )
    return {name.partition(".")[0] for name in done.stderr.split()}, done.stdout


HEAVY = {"torch", "triton", "numpy", "fastapi", "polars", "pyarrow", "scipy", "pandas"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["eval", "--help"], ["doctor", "--help"], ["tasks", "list"]]
)
def test_help_and_lists_import_nothing_heavy(arguments):
    modules, out = modules_after(f"from kernelgym.cli.main import main; main({arguments!r})")
    assert "eval" in out or "builtin/add" in out or "doctor" in out
    assert not modules & HEAVY


def test_schema_and_errors_import_nothing_heavy():
    modules, _ = modules_after("import kernelgym, kernelgym.schema, kernelgym.errors")
    assert not modules & (HEAVY | {"rich", "cyclopts", "httpx"})


def test_host_and_judge_start_without_data_frame_libraries():
    modules, _ = modules_after("import kernelgym.worker.host")
    assert not modules & HEAVY
    modules, _ = modules_after("import kernelgym.judge.process, kernelgym.sandbox.candidate")
    assert "torch" in modules
    assert not modules & {"polars", "pyarrow", "scipy", "pandas", "fastapi"}


def test_stdout_that_is_closed_early_is_no_crash():
    command = f"{sys.executable} -m kernelgym.cli.main tasks list --json | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command.replace("-m kernelgym.cli.main", "-c 'from kernelgym.cli.main import run; run()'")],  # noqa: E501
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr == ""
