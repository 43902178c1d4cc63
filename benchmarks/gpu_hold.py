"""Where the time goes for which an evaluation holds the GPU.

    python benchmarks/gpu_hold.py [--device cuda:0] [--lanes 1,4,8] [--count 16] [--spans]
        [--json FILE]

Evaluates a small softmax (4096 x 2048), each time from another source, so that it is compiled
afresh: with one lane one after the other, with more of them side by side. Prints, for each number
of lanes, evaluations a second after the first round, and medians of the wall time, of the seconds
under the gate and of every stage. ``--spans`` runs without jails and prints how often each part of
the judge and of the candidate ran in the last evaluation, and how long that took.

A tool for looking, not a benchmark of record: `gpu_throughput.py` is that.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import gpu_hold_spans
import record
from kernelgym.sandbox.zygote_client import ZygoteClient
from kernelgym.schema import EvalResult, Submission, Task
from kernelgym.worker.host import EvaluationHost

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


async def look(arguments: argparse.Namespace, lanes: int, *, spans: bool) -> dict[str, object]:
    """One number of lanes, in a host of its own."""
    level = "none" if spans else "L1"
    async with EvaluationHost(
        device=arguments.device, jail_level=level, fallback=True, judge_memory_mb=32768,
        concurrency=lanes,
    ) as host:  # fmt: skip
        if spans:
            await asyncio.to_thread(host._processes._zygote.close)
            roles = {role: f"gpu_hold_spans:{role}" for role in ("judge", "candidate")}
            host._processes._zygote = ZygoteClient(roles=roles, gpu=arguments.device != "cpu")
        rows = 64 if arguments.device == "cpu" else 4096
        await asyncio.gather(*map(host.evaluate, submissions(lanes, rows)))
        started = time.perf_counter()
        results = await asyncio.gather(*map(host.evaluate, submissions(arguments.count, rows)))
        seconds = time.perf_counter() - started
        tell(lanes, results, seconds)
        return numbers(lanes, results, seconds)


def numbers(lanes: int, results: list[EvalResult], seconds: float) -> dict[str, object]:
    """What is kept of a run."""
    provenances = [result.provenance for result in results]
    alone = [one.gate_held_seconds or 0.0 for one in provenances]
    leads = sorted(t.lead_excess_us or 0.0 for result in results for t in result.timings)
    return {
        "lanes": lanes,
        "evaluations": len(results),
        "evaluations_per_s": round(len(results) / seconds, 2),
        "seconds": round(seconds, 2),
        "outcomes": dict(Counter(result.outcome.value for result in results)),
        "alone_p50_s": round(statistics.median(alone), 3),
        "alone_sum_s": round(sum(alone), 2),
        "shared_p50_s": round(
            statistics.median(one.gate_shared_seconds or 0.0 for one in provenances), 3
        ),
        "lead_excess_p90_us": leads[int(0.9 * (len(leads) - 1))] if leads else None,
        "lead_excess_max_us": leads[-1] if leads else None,
        "findings": dict(Counter(f.id for result in results for f in result.findings)),
    }


def tell(lanes: int, results: list[EvalResult], seconds: float) -> None:
    """Print medians."""
    outcomes = sorted({result.outcome.value for result in results})
    held = [result.provenance.gate_held_seconds or 0.0 for result in results]
    shared = [result.provenance.gate_shared_seconds or 0.0 for result in results]
    walls = [result.provenance.wall_seconds for result in results]
    stages = sorted({stage for result in results for stage in result.provenance.stage_seconds})
    print(f"{lanes} lanes: {len(results) / seconds:.2f} evaluations/s, {outcomes}")
    middle = statistics.median(walls), statistics.median(held), statistics.median(shared)
    print("  wall {:.3f} s, alone on the device {:.3f} s, beside others {:.3f} s".format(*middle))
    print(f"  somebody alone on the device: {sum(held):.2f} of {seconds:.2f} s")
    tell_findings(results)
    for stage in stages:
        spent = [result.provenance.stage_seconds.get(stage, 0.0) for result in results]
        if (middle := statistics.median(spent)) >= 0.001:
            print(f"    {stage:<12} {middle:.3f} s")
    for failure in {result.failure.message for result in results if result.failure}:
        print(f"  {failure[:300]}")
    samples = [len(timing.kernel_samples_ms) for result in results for timing in result.timings]
    if samples:
        print(f"  samples a block: {statistics.median(samples):g}")
        for name in ("lead_excess_us", "tail_excess_us"):
            found = sorted(getattr(t, name) or 0.0 for result in results for t in result.timings)
            print(f"  {name}:", " ".join(f"{one:.1f}" for one in found))
        for timing in results[-1].timings:
            print(f"  last, {timing.mode}, {timing.clock}: {timing.speedup:.3f}")
            for name in ("reference_samples_ms", "kernel_samples_ms"):
                times = sorted(1e3 * sample for sample in getattr(timing, name))
                print(f"    {name}:", " ".join(f"{one:.2f}" for one in times), "(us)")


def tell_findings(results: list[EvalResult]) -> None:
    """How often what was found, and what was wrong with the measurements."""
    found = [finding for result in results for finding in result.findings]
    print("  findings:", dict(Counter(finding.id for finding in found)))
    for finding in found:
        if finding.id in ("disturbed", "measured_again", "unsteady_reference"):
            print(f"    {finding.message}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--lanes", default="1,8")
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--spans", action="store_true")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    arguments = parser.parse_args()
    paths = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        gpu_hold_spans.WHERE.write_text(directory)
        runs = [
            asyncio.run(look(arguments, lanes, spans=arguments.spans))
            for lanes in map(int, arguments.lanes.split(","))
        ]
        if arguments.json is not None:
            record.write(arguments.json, "gpu_hold", {"device": arguments.device, "runs": runs})
        gpu_hold_spans.WHERE.unlink()
        gpu_hold_spans.tell(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
