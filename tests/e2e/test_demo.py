"""`make demo`, once: every example candidate gets the outcome that it was written for."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ENTRIES = tomllib.loads((EXAMPLES / "demo.toml").read_text())["candidate"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    record = tmp_path_factory.mktemp("demo") / "results.json"
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py", "--setup-seconds", "1.5", "--json", record],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    results = json.loads(record.read_text()) if record.exists() else []
    return done, dict(zip((entry["file"] for entry in ENTRIES), results, strict=False))


def test_everything_is_as_expected(demo):
    done, _ = demo
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ENTRIES)} of {len(ENTRIES)} as expected" in done.stdout
    assert "set-up 1.5 s, run " in done.stdout


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["file"] for entry in ENTRIES])
def test_outcome(demo, entry):
    _, results = demo
    result = results[entry["file"]]
    assert result["outcome"] == entry["outcome"], result["failure"]
    if "finding" in entry:
        assert entry["finding"] in [finding["id"] for finding in result["findings"]]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("decoy_gelu.py", "def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):"),
        ("decoy_branch_leaky_relu.py", "return F.leaky_relu(x, negative_slope=self.slope)"),
        (
            "passthrough_attention.py",
            "return F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        ),
        ("lazy_mlp.py", "x = self.up(x)"),
        ("compile_error_gelu.py", "tl.store(out_ptr + offsets, tl.gelu(x), mask=inside)"),
        ("runtime_error_row_sum.py", "x = x.view(rows, rows)"),
    ],
)
def test_the_line_that_gave_it_away(demo, file, line):
    done, results = demo
    result = results[f"candidates/{file}"]
    source = (EXAMPLES / "candidates" / file).read_text().splitlines()
    pointers = [(f["line"], f["excerpt"]) for f in result["findings"] if f["line"]]
    if result["failure"]:
        pointers.append((result["failure"]["line"], result["failure"]["excerpt"]))
    assert any(number and source[number - 1].strip() == line for number, _ in pointers), pointers
    assert line in " ".join(done.stdout.split())


def test_honest_candidates_were_seen_to_launch_and_were_compiled_for_a_gpu(demo):
    _, results = demo
    for file, kernels in {
        "candidates/add.py": {"add_kernel"},
        "candidates/mlp_two_kernels.py": {"linear_gelu_kernel", "linear_kernel"},
    }.items():
        profile = results[file]["profile"]
        assert {kernel["name"] for kernel in profile["kernels"] if kernel["own"]} == kernels
        assert {kernel["name"] for kernel in profile["compiled"]} == kernels
        assert all(kernel["registers"] > 0 for kernel in profile["compiled"])
        assert results[file]["speedup"] is None


def test_an_outcome_that_is_not_the_expected_one_fails_the_demo(tmp_path):
    manifest = tmp_path / "demo.toml"
    candidate = EXAMPLES / "candidates" / "add.py"
    manifest.write_text(
        f'[[candidate]]\nfile = "{candidate}"\ntask = "builtin/add"\noutcome = "hack"\n'
    )
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py", manifest],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "correct (expected hack)" in done.stdout
    assert "0 of 1 as expected" in done.stdout
