"""Outputs of several GB: the right answer accepted and timed, one wrong element in a billion found.

    python benchmarks/gpu_large_outputs.py [--device cuda:0] [--elements 536870912] [--out DIR]

The reference returns two tensors, each as large as its input (2 GiB by default): too much to be
put aside while the next call is queued, so answers take the way of their own. Candidates: one
right, one wrong in a single element of the second output, one that leaves the last tenth of it
unwritten. Result: ``DIR/gpu_large_outputs.json``.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # where it is not installed

import record
from kernelgym.schema import EvalResult, Submission, Task
from kernelgym.worker.host import evaluate_sync

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x), x * 2
def get_inputs():
    return [torch.randn(ELEMENTS)]
"""
CANDIDATE = """
import torch, triton, triton.language as tl
@triton.jit
def both(x_ptr, a_ptr, b_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(a_ptr + i, tl.maximum(x, 0), mask=i < n)
    tl.store(b_ptr + i, x * 2 WRONG, mask=(i < n) & (i < LAST))
class ModelNew(torch.nn.Module):
    def forward(self, x):
        a, b = torch.empty_like(x), torch.empty_like(x)
        both[(triton.cdiv(x.numel(), 2048),)](x, a, b, x.numel(), BLOCK=2048)
        return a, b
"""
VARIANTS = {
    "right": ("", "n"),
    "one wrong element": ("+ tl.where(i == n - 7, 3.0, 0.0)", "n"),
    "unwritten tail": ("", "n - n // 10"),
}


def source(wrong: str, last: str) -> str:
    """Of one variant."""
    return CANDIDATE.replace("WRONG", wrong).replace("LAST", last)


def row(result: EvalResult, seconds: float) -> dict[str, object]:
    """What is kept of a result."""
    failed = [trial.detail for trial in result.trials if not trial.passed]
    return {
        "outcome": result.outcome.value,
        "speedup": result.speedup,
        "reference_ms": result.reference_ms,
        "kernel_ms": result.kernel_ms,
        "coverage": result.coverage,
        "trials": len(result.trials),
        "first failure": failed[0] if failed else "",
        "findings": [finding.id for finding in result.findings],
        "wall_s": round(seconds, 2),
        "stage_seconds": result.provenance.stage_seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--elements", type=int, default=1 << 29)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    arguments = parser.parse_args()
    reference = REFERENCE.replace("ELEMENTS", str(arguments.elements))
    task = Task(name="large/outputs", reference=reference)
    rows = {}
    for name, (wrong, last) in VARIANTS.items():
        started = time.perf_counter()
        submission = Submission(task=task, source=source(wrong, last))
        result = evaluate_sync(submission, device=arguments.device)
        rows[name] = row(result, time.perf_counter() - started)
        print(f"{name}: {rows[name]['outcome']} {rows[name]['first failure']}", flush=True)
    found = {
        "benchmark": "gpu_large_outputs",
        "date": record.today(),
        "command": " ".join(["python", *sys.argv]),
        "commit": record.commit(Path(__file__).parents[1]),
        "machine": record.machine(),
        "versions": record.versions("torch", "triton"),
        "device": arguments.device,
        "output_bytes": 2 * 4 * arguments.elements,
        "rows": rows,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "gpu_large_outputs.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0 if [r["outcome"] for r in rows.values()] == ["correct", "mismatch", "mismatch"] else 1


if __name__ == "__main__":
    sys.exit(main())
