"""Where the time goes for which an evaluation holds the GPU.

    python benchmarks/gpu_hold.py [--device cuda:0] [--lanes 1,4,8] [--count 16] [--profile]

Evaluates a small softmax (4096 x 2048), each time from another source, so that it is compiled
afresh: with one lane one after the other, with more of them side by side. Prints, for each number
of lanes, evaluations a second after the first round, and medians of the wall time, of the seconds
under the gate and of every stage. ``--profile`` runs judges without a jail and under cProfile,
which makes them slower, and prints what the last one spent its time on.

A tool for looking, not a benchmark of record: `gpu_throughput.py` is that.
"""

import argparse
import asyncio
import cProfile
import io
import os
import pstats
import statistics
import sys
import tempfile
import time
from pathlib import Path

from kernelgym.sandbox.zygote_client import ZygoteClient
from kernelgym.schema import EvalResult, Submission, Task
from kernelgym.worker.host import EvaluationHost

PROFILES = "KERNELGYM_PROFILES"
WHERE = Path(os.sep, "tmp", f"{PROFILES}-{os.getuid()}")
"""Tells a judge, whose own temporary directory is another, where its profile goes."""
REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
def get_inputs():
    return [torch.randn(ROWS, 2048)]
"""
CANDIDATE = """
import torch, triton, triton.language as tl
@triton.jit
def softmax_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0)) * NUMBER / NUMBER
    tl.store(y_ptr + row * n + i, e / tl.sum(e, axis=0), mask=i < n)
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=2048)
        return y
"""


def submissions(count: int, rows: int) -> list[Submission]:
    """So many, all different, of one task."""
    task = Task(name="hold/softmax", reference=REFERENCE.replace("ROWS", str(rows)))
    numbers = [1.0 + time.time() % 1 + index for index in range(count)]
    return [Submission(task=task, source=CANDIDATE.replace("NUMBER", repr(n))) for n in numbers]


async def look(arguments: argparse.Namespace, lanes: int, profiles: str) -> None:
    """One number of lanes, in a host of its own."""
    level = "none" if profiles else "L1"
    async with EvaluationHost(
        device=arguments.device, jail_level=level, fallback=True, judge_memory_mb=32768,
        concurrency=lanes,
    ) as host:  # fmt: skip
        if profiles:
            await asyncio.to_thread(host._processes._zygote.close)
            roles = {"judge": f"{Path(__file__).stem}:profiled_judge"}
            host._processes._zygote = ZygoteClient(roles=roles, gpu=arguments.device != "cpu")
        rows = 64 if arguments.device == "cpu" else 4096
        await asyncio.gather(*map(host.evaluate, submissions(lanes, rows)))
        started = time.perf_counter()
        results = await asyncio.gather(*map(host.evaluate, submissions(arguments.count, rows)))
        tell(lanes, results, time.perf_counter() - started)


def tell(lanes: int, results: list[EvalResult], seconds: float) -> None:
    """Print medians."""
    outcomes = sorted({result.outcome.value for result in results})
    held = [result.provenance.gate_held_seconds or 0.0 for result in results]
    walls = [result.provenance.wall_seconds for result in results]
    stages = sorted({stage for result in results for stage in result.provenance.stage_seconds})
    print(f"{lanes} lanes: {len(results) / seconds:.2f} evaluations/s, {outcomes}")
    print(
        f"  wall {statistics.median(walls):.3f} s, under the gate {statistics.median(held):.3f} s"
    )
    for stage in stages:
        spent = [result.provenance.stage_seconds.get(stage, 0.0) for result in results]
        if (middle := statistics.median(spent)) >= 0.001:
            print(f"    {stage:<12} {middle:.3f} s")
    for failure in {result.failure.message for result in results if result.failure}:
        print(f"  {failure[:300]}")
    samples = [len(timing.kernel_samples_ms) for result in results for timing in result.timings]
    if samples:
        print(f"  samples a block: {statistics.median(samples):g}")


def profiled_judge(link_fd: int, gate_fd: int | None = None) -> None:
    """Role of a zygote: a judge whose evaluations are profiled."""
    from kernelgym.judge import process

    original = process.Judge._evaluate

    def evaluate(self: process.Judge, request: dict) -> dict:
        profile = cProfile.Profile()
        answer = profile.runcall(original, self, request)
        profile.dump_stats(f"{os.environ[PROFILES]}/{time.time_ns()}.prof")
        return answer

    os.environ[PROFILES] = WHERE.read_text()
    process.Judge._evaluate = evaluate
    process.main(link_fd, gate_fd)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--lanes", default="1,8")
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    paths = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    with tempfile.TemporaryDirectory() as directory:
        WHERE.write_text(directory)  # a jailed process has an environment of its own
        for lanes in map(int, arguments.lanes.split(",")):
            asyncio.run(look(arguments, lanes, directory if arguments.profile else ""))
        WHERE.unlink()
        for path in sorted(Path(directory).glob("*.prof"))[-1:]:
            text = io.StringIO()
            pstats.Stats(str(path), stream=text).sort_stats("cumtime").print_stats(45)
            print(text.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
