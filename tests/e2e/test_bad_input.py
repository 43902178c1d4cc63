"""Bad input through the real command line: one clear line, the right code, the right culprit."""

import json
import subprocess
import sys

import pytest

GOOD = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.randn(8)]

def get_init_inputs():
    return []
"""
CANDIDATE = GOOD.replace("class Model(", "class ModelNew(")


def run(directory, reference, candidate=CANDIDATE, *options):
    (directory / "ref.py").write_text(reference)
    (directory / "cand.py").write_text(candidate)
    command = "from kernelgym.cli.main import run; run()"
    return subprocess.run(
        [sys.executable, "-c", command, "eval", "cand.py", "--reference", "ref.py",
         "--backend", "torch", "--trials", "1", *options],
        capture_output=True, text=True, timeout=120, check=False, cwd=directory,
    )  # fmt: skip


def test_good_pair(tmp_path):
    done = run(tmp_path, GOOD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("correct")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("import torch\n", "import torch\nimport no_such_module\n"), "no_such_module"),
        (("class Model(", "class Other("), "Model"),
        (("return x + 1", "return x + y"), "NameError"),
        (("def forward", "def forward(:\n    def f"), "SyntaxError"),
        (("return [torch.randn(8)]", "raise ValueError('no inputs today')"), "no inputs today"),
        (("return []", "return [1]"), "TypeError"),
        (("def get_inputs", "def give_inputs"), "get_inputs"),
        (("return [torch.randn(8)]", "return [torch.randn(1 << 40)]"), "the limit is"),
    ],
    ids=["import", "class", "forward", "syntax", "inputs", "init", "no inputs", "huge"],
)
def test_faulty_reference_is_the_reference_s_fault(tmp_path, change, words):
    done = run(tmp_path, GOOD.replace(*change), CANDIDATE, "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["outcome"] == "infrastructure"
    assert result["failure"]["code"].startswith("reference_"), result["failure"]
    text = json.dumps(result["failure"]).lower()
    assert words.lower() in text
    assert str(tmp_path) not in text


def test_faulty_reference_in_words(tmp_path):
    done = run(tmp_path, GOOD.replace("return x + 1", "return x + y"))
    assert done.returncode == 3
    assert "name 'y' is not defined" in done.stdout
    assert "mend the reference" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("candidate", "outcome"),
    [
        ("x = 1\n", "runtime_error"),
        ("class ModelNew(:\n", "compile_error"),
        ("import no_such_module\n" + CANDIDATE, "runtime_error"),
        ("", "runtime_error"),
    ],
    ids=["no class", "syntax", "import", "empty"],
)
def test_faulty_candidate_is_judged_and_named(tmp_path, candidate, outcome):
    done = run(tmp_path, GOOD, candidate, "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 1, result
    assert result["outcome"] in (outcome, "compile_error"), result["failure"]
    assert result["failure"]["message"]
