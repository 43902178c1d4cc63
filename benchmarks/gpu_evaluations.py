"""Whole evaluations on the GPU: one, the demo's, the references as their own candidates."""

import asyncio
import json
import threading
import time
import tomllib
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

from kernelgym.schema import EvalResult, Submission
from kernelgym.tasks.registry import builtin_task, builtin_tasks
from kernelgym.worker.host import EvaluationHost

EXAMPLES = Path(__file__).parent.parent / "examples"
AA_COUNT = 20
SECOND_CONTEXT = """
import ctypes, torch, triton, triton.language as tl
@triton.jit
def add_kernel(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cuda_library = ctypes.CDLL("libcuda.so.1")
        self.other = ctypes.c_void_p()
        old = ctypes.c_void_p()
        self.cuda_library.cuCtxGetCurrent(ctypes.byref(old))
        self.checked("cuCtxCreate_v2", ctypes.byref(self.other), 0, 0)
        self.buffer = ctypes.c_uint64()
        self.checked("cuMemAlloc_v2", ctypes.byref(self.buffer), ctypes.c_size_t(1 << 26))
        self.cuda_library.cuCtxSetCurrent(old)
        self.old = old
    def checked(self, name, *arguments):
        status = getattr(self.cuda_library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: {status}")
    def forward(self, x, y):
        self.checked("cuCtxSetCurrent", self.other)
        self.checked("cuMemsetD8Async", self.buffer, ctypes.c_ubyte(1),
                     ctypes.c_size_t(1 << 26), None)
        self.checked("cuCtxSetCurrent", self.old)
        out = torch.empty_like(x)
        n = x.numel()
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, B=1024)
        return out
"""


def steps(section: str, dry_run: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    """The steps of a section; all its evaluations share one host."""
    device = "cpu" if dry_run else "cuda:0"
    suffix = "" if dry_run else ":gpu"
    if section == "one":
        plan = [("add", add(suffix))]
    elif section == "demo":
        plan = demo(suffix)[: 2 if dry_run else None]
    elif section == "aa":
        plan = references(suffix)[: 2 if dry_run else AA_COUNT]
    elif section == "second_context":
        task = builtin_task(f"builtin/add{suffix}")
        plan = [("second context", (Submission(task=task, source=SECOND_CONTEXT), {}))]
        plan = [] if dry_run else plan
    else:
        raise ValueError(f"no section {section!r}")
    with Session(device) as session:
        for name, (submission, expected) in plan:
            yield name, partial(session.judge, submission, expected)


class Session:
    """One host for all steps, in an event loop of its own, so that each step's result is kept."""

    def __init__(self, device: str) -> None:
        self._device = device

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        host = EvaluationHost(device=self._device, fallback=True, judge_memory_mb=32768)
        self._host = self._wait(host.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._host.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def judge(self, submission: Submission, expected: dict) -> dict:
        started = time.perf_counter()
        result = self._wait(self._host.evaluate(submission))
        found = describe(result, expected) | {"wall_s": round(time.perf_counter() - started, 3)}
        if not found["as_expected"]:
            raise Unexpected(json.dumps(found))
        return found


class Unexpected(Exception):
    """Another outcome than the right one; the text is the whole description."""


def add(suffix: str) -> tuple[Submission, dict]:
    source = (EXAMPLES / "candidates" / "add.py").read_text()
    return Submission(task=builtin_task(f"builtin/add{suffix}"), source=source), {
        "outcome": "correct"
    }


def demo(suffix: str) -> list:
    entries = tomllib.loads((EXAMPLES / "demo.toml").read_text())["candidate"]
    plan = []
    for entry in entries:
        source = (EXAMPLES / entry["file"]).read_text()
        task = builtin_task(entry["task"] + suffix)
        plan.append((Path(entry["file"]).stem, (Submission(task=task, source=source), entry)))
    return plan


def references(suffix: str) -> list:
    """Each reference as its own candidate: must be correct, at a speedup of one."""
    plan = []
    for known in builtin_tasks():
        task = builtin_task(known.name + suffix)
        submission = Submission(
            task=task, source=task.reference, backend="torch", entry_point=task.entry_point
        )
        plan.append((known.name, (submission, {"outcome": "correct"})))
    return plan


def describe(result: EvalResult, expected: dict) -> dict:
    profile = result.profile
    return {
        "as_expected": result.outcome.value == expected.get("outcome", result.outcome.value),
        "outcome": result.outcome.value,
        "failure": result.failure.model_dump() if result.failure else None,
        "findings": [(f.id, f.severity, f.message[:200]) for f in result.findings],
        "speedup": result.speedup,
        "interval": result.speedup_interval,
        "reference_ms": result.reference_ms,
        "kernel_ms": result.kernel_ms,
        "coverage": result.coverage,
        "displaced": result.displaced,
        "not_measured": result.not_measured,
        "sentence": profile.sentence if profile else "",
        "kernels": [
            (k.name[:60], k.own, k.calls, k.time_us, k.mode)
            for k in (profile.kernels if profile else ())
        ][:12],
        "clocks": [timing.clock for timing in result.timings],
        "stage_seconds": result.provenance.stage_seconds,
        "jail": (result.provenance.jail, result.provenance.jail_missing),
    }
