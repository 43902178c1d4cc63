"""Timing on a CPU: what the judge says of references against themselves, and of fused kernels.

    python benchmarks/numba_speedups.py

A-A: twenty references, each its own candidate, under a backend that is plain torch except that it
is timed on a CPU; it is built outside the package, here. Then ten Numba kernels that fuse a chain
of operators, five element-wise and five reductions, against eager torch. One thread on each side.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from kernelgym.schema import EvalResult, Submission, Task
from kernelgym.worker.host import EvaluationHost
from numba_tasks import (
    ELEMENT_WISE,
    FUSED_SHAPE,
    OTHERS,
    REDUCTIONS,
    SHAPE,
    candidate,
    reference,
)
from record import versions, write

RESULT = Path(__file__).resolve().parent / "results" / "numba-speedups-2026-12-01.json"
BACKEND = """\
from kernelgym.backends.torch import TorchBackend


class TorchOnCpu(TorchBackend):
    name = "torch_on_cpu"
    summary = "plain PyTorch, timed on a CPU"
    devices = ("cpu",)
    times_on_cpu = True


BACKEND = TorchOnCpu()
"""
LOW, HIGH, WANTED_SPEEDUP, WANTED_COVERAGE = 0.95, 1.05, 1.2, 0.9


def install(folder: Path) -> None:
    """The backend as an installed distribution, visible to this process and its children."""
    info = folder / "torch_on_cpu-1.0.dist-info"
    info.mkdir()
    (folder / "torch_on_cpu.py").write_text(BACKEND)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-on-cpu\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[kernelgym.backends]\ntorch_on_cpu = torch_on_cpu:BACKEND\n"
    )
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


def row(name: str, result: EvalResult) -> dict[str, object]:
    """What the judge said."""
    failure = result.failure.message[:200] if result.failure else None
    return {
        "task": name,
        "outcome": result.outcome.value,
        "failure": failure,
        "speedup": result.speedup,
        "interval": result.speedup_interval,
        "coverage": result.coverage,
        "reference_ms": result.reference_ms,
        "kernel_ms": result.kernel_ms,
        "samples_ms": [
            (
                [round(ms, 4) for ms in timing.reference_samples_ms],
                [round(ms, 4) for ms in timing.kernel_samples_ms],
            )
            for timing in result.timings
        ],
        "rounds": [timing.pairs for timing in result.timings],
        "findings": [finding.id for finding in result.findings],
        "not_measured": result.not_measured,
        "load_average_1min": os.getloadavg()[0],
    }


async def judge(aa_only: bool) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Rows of the two tables."""
    alike, fused = [], []
    names = [*ELEMENT_WISE, *REDUCTIONS, *OTHERS]
    async with EvaluationHost(fallback=True, concurrency=1) as host:

        async def ask(
            name: str, source: str, backend: str, shape: tuple[int, int] = SHAPE
        ) -> dict[str, object]:
            task = Task(name=name, reference=reference(name, shape=shape), origin="benchmark")
            result = await host.evaluate(Submission(task=task, source=source, backend=backend))
            found = row(name, result)
            print(backend, found, file=sys.stderr)
            return found

        for name in names:
            alike.append(await ask(name, reference(name, "ModelNew"), "torch_on_cpu"))
        for name in [] if aa_only else names[: len(ELEMENT_WISE) + len(REDUCTIONS)]:
            fused.append(await ask(name, candidate(name), "numba", FUSED_SHAPE))
    return alike, fused


def inside(value: object, low: float, high: float = float("inf")) -> bool:
    return isinstance(value, float) and low <= value <= high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--aa-only", action="store_true")
    arguments = parser.parse_args()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="numba-speedups-") as folder:
        install(Path(folder))
        alike, fused = asyncio.run(judge(arguments.aa_only))
    body: dict[str, object] = {
        "shape": SHAPE,
        "shape_of_fused": FUSED_SHAPE,
        "load_average_before": before,
        "load_average_after": os.getloadavg(),
        "numba": versions("numba").get("numba"),
        "aa_tasks": len(alike),
        "aa_within": sum(inside(one["speedup"], LOW, HIGH) for one in alike),
        "fused": len(fused),
        "fused_faster_and_covered": sum(
            inside(one["speedup"], WANTED_SPEEDUP) and inside(one["coverage"], WANTED_COVERAGE)
            for one in fused
        ),
        "aa": alike,
        "kernels": fused,
    }
    write(arguments.out, "timing on a CPU", body)


if __name__ == "__main__":
    main()
