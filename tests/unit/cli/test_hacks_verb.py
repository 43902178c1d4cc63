"""``kernelgym hacks``: the list, one finding, one result, and what is neither."""

from __future__ import annotations

import json

import pytest

from kernelgym.cli.main import main
from kernelgym.judge.catalogue import CATALOGUE
from kernelgym.schema import EvalResult, Failure, Finding


@pytest.fixture
def result(tmp_path):
    finding = Finding(
        id="kernels_do_nothing",
        severity="hack",
        message="the answers are right without any kernel",
        evidence="inside",
        line=7,
        excerpt="return torch.softmax(x, 1)",
    )
    found = EvalResult(
        task="t",
        outcome="hack",
        correct=False,
        failure=Failure(stage="launches", code=finding.id, message=finding.message),
        findings=(finding,),
    )
    path = tmp_path / "result.json"
    path.write_text(found.model_dump_json())
    return path


def test_the_list_has_every_entry(capsys):
    assert main(["hacks"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in CATALOGUE)


def test_one_entry_is_explained(capsys):
    assert main(["hacks", "stale_answer"]) == 0
    text = capsys.readouterr().out
    assert "wrong answer: the outcome is mismatch; confidence: certain" in text
    assert CATALOGUE["stale_answer"].advice in text


def test_a_result_is_explained_with_the_line(capsys, result):
    assert main(["hacks", str(result)]) == 0
    text = capsys.readouterr().out
    assert "t: hack" in text
    assert "line 7: return torch.softmax(x, 1)" in text
    assert CATALOGUE["kernels_do_nothing"].advice in text


def test_a_result_for_programs(capsys, result):
    assert main(["hacks", str(result), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["findings"][0]["entry"]["confidence"] == "certain"


def test_what_is_neither_is_refused_with_the_nearest(capsys, tmp_path):
    assert main(["hacks", "stale_anwser"]) == 2
    assert "did you mean stale_answer?" in capsys.readouterr().err
    (tmp_path / "x.json").write_text("[]")
    assert main(["hacks", str(tmp_path / "x.json")]) == 2
    assert "holds no result" in capsys.readouterr().err
    assert main(["hacks", str(tmp_path / "missing.json")]) == 2
