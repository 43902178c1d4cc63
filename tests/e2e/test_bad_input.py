"""Bad input through the real command line: one clear line, the right code, the right culprit."""

import json
import os
import subprocess
import sys
from pathlib import Path

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


WORLD = Path(__file__).parents[1] / "jail" / "world.py"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="builds a container's world as root")
def test_jail_that_cannot_be_had_names_the_weaker_one(tmp_path):
    """Docker's default capabilities allow no namespaces: L1 is refused, L0 works."""
    tmp_path.chmod(0o755)
    (tmp_path / "ref.py").write_text(GOOD)
    (tmp_path / "cand.py").write_text(CANDIDATE)
    command = [
        sys.executable, WORLD, "docker", sys.executable, "-c",
        "from kernelgym.cli.main import run; run()", "eval", tmp_path / "cand.py",
        "--reference", tmp_path / "ref.py", "--backend", "torch", "--trials", "1",
    ]  # fmt: skip
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "no jail of level L1" in refused.stdout
    assert "--jail L0" in refused.stdout.splitlines()[-1]
    weaker = subprocess.run(
        [*command, "--jail", "L0"], capture_output=True, text=True, timeout=120, check=False
    )
    assert weaker.returncode == 0, weaker.stdout + weaker.stderr
    assert "jail L0" in weaker.stdout
