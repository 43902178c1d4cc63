"""The verbs ``tasks synth``, ``tasks import`` and ``tasks lint``, from the command line."""

import json
from pathlib import Path

import pytest

from kernelgym.cli import exit_codes
from kernelgym.cli.main import main

FAULTY = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.rand(8, 16)]
"""


def test_from_a_seed_to_a_lint_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "tasks"
    words = ["tasks", "synth", "--seed", "4", "--count", "3", "--difficulty", "1..2"]
    assert main([*words, "--workers", "0", "--out", str(out)]) == exit_codes.OK
    said = capsys.readouterr().out
    assert said.startswith("3 tasks (")
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert sum(summary["splits"].values()) == 3
    lines = [path.read_text(encoding="utf-8") for path in sorted(out.glob("*.jsonl"))]
    assert sum(text.count("\n") for text in lines) == 3
    assert len(lines) == 3

    tasks = tmp_path / "tasks.jsonl"
    words = ["tasks", "import", str(out), "--out", str(tasks), "--json"]
    assert main(words) == exit_codes.OK
    found = json.loads(capsys.readouterr().out)
    assert found["tasks"] == 3
    assert [Path(bad["where"]).name for bad in found["bad"]] == ["summary.json"]


def test_lint_exits_1_for_a_faulty_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "bad.py").write_text(FAULTY, encoding="utf-8")
    good = FAULTY.replace("torch.rand", "torch.randn")
    (tmp_path / "good.py").write_text(good, encoding="utf-8")
    assert main(["tasks", "lint", str(tmp_path)]) == exit_codes.CANDIDATE_FAILED
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("FAULT  bad  accepts_passthrough")
    assert said[1].startswith("ok     good  margin")
    assert said[2] == "1 of 2 tasks can be trusted"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["synth", "--difficulty", "9", "--out", "x.jsonl"], "from 1 to 8"),
        (["synth", "--difficulty", "3..2", "--out", "x.jsonl"], "from 1 to 8"),
        (["synth", "--count", "0", "--out", "x.jsonl"], "at least 1"),
        (["import", "absent.jsonl"], "cannot read"),
        (["lint", "builtin/sofmax"], "did you mean builtin/softmax"),
    ],
)
def test_usage_errors(words: list[str], text: str, capsys: pytest.CaptureFixture[str]):
    assert main(["tasks", *words]) == exit_codes.USAGE
    assert text in capsys.readouterr().err
