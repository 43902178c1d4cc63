"""Section ``matrix``: every case of the outcome matrix, each followed by an honest candidate.

The cases are those of ``tests/e2e/cases.py``. Where a GPU makes another outcome right, or a limit
made for a CPU too small, `adapted` changes the case, and the result says what and why. Several
cases run at once, then an honest one on the same zygote, which is the next evaluation after each of
them: every evaluation has its own processes, and the gate lets one at a time use the GPU, so
concurrency changes waiting, not outcomes. Timed is what is correct; on a GPU the vectors are
longer, because a kernel of two microseconds takes seconds to time well.
"""

import asyncio
import contextlib
import dataclasses
import time

from cases import CASES, HONEST_CASE, Case, forward

from gpu_jail_sheet import Sheet, candidate_s, describe
from kernelgym.errors import KernelGymError
from kernelgym.schema import EvalResult, Failure, Outcome, Submission
from kernelgym.worker.host import EvaluationHost

ELSEWHERE = ("L0", "none")
CHOSEN = [
    *("sys_exit", "os_exit", "segfault", "infinite_loop", "memory_bomb", "fork_bomb"),
    *("daemonised_children", "decoy", "kernel_compile_error", "forged_answer"),
]
"""Cases that also run at the other levels."""
DRY = ["honest", "kernel_compile_error", "os_exit", "daemonised_children", "decoy", "infinite_loop"]
AFTER_DEADLINE_S = 1.0
MIN_LEFT_S = 12.0
"""No batch is begun later."""
_LIMIT = "a context and a first compilation take longer than the whole limit made for a CPU"
_ONCE = "does it in the first call only: here a candidate is called hundreds of times to be timed"
_JIT = "no cross-compiler: the kernel is compiled when it is first launched"


ELEMENTS = "1 << 22"
_SIZES = (
    ("torch.rand(512)", f"torch.rand({ELEMENTS})"),
    ("torch.empty(512", f"torch.empty({ELEMENTS}"),
    ("add_kernel[(1,)](", "add_kernel[(triton.cdiv(x.numel(), 512),)]("),
)


def _first_call(body: str) -> str:
    indented = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return forward(f"if not DONE:\n    DONE.append(1)\n{indented}\nreturn add(x, y)", "DONE = []")


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, b"kg-orphan", 0, 0, 0)
        for number in range(1, 32):
            if number not in (9, 19):
                signal.signal(number, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
"""
ADAPTED: dict[str, tuple[dict[str, object], str]] = {
    "kernel_compile_error": ({"stage": "forward"}, _JIT),
    "kernel_error_everywhere": ({"stage": "forward"}, _JIT),
    "buffer_used_twice": (
        {"source": forward("return BUFFER.copy_(add(x, y))",
                           "BUFFER = torch.empty(512, device='cuda')")},
        "its buffer has to lie on the device",
    ),
    "infinite_loop": ({"timeout_s": 5.0}, _LIMIT),
    "sleeps_on_import": ({"timeout_s": 5.0}, _LIMIT),
    "ignores_signals": ({"timeout_s": 5.0}, _LIMIT),
    "memory_bomb": ({"memory_mb": 4096}, "a CUDA context may need more than 512 MiB of the host"),
    "stdout_flood": (
        {"source": _first_call("for _ in range(1000):\n    os.write(1, b'x' * (1 << 20))")}, _ONCE,
    ),
    "leftover_thread": (
        {"source": _first_call("threading.Thread(target=time.sleep, args=(600,)).start()")}, _ONCE,
    ),
    "daemonised_children": ({"source": _first_call(DAEMON)}, _ONCE),
    "keeps_descriptors_open": (
        {"source": _first_call("if os.fork() == 0:\n    time.sleep(600)")}, _ONCE,
    ),
}  # fmt: skip


def adapted(case: Case) -> tuple[Case, str]:
    """The case as it is right on a GPU, and why it was changed ("" where it was not)."""
    changes, why = ADAPTED.get(case.name, ({}, ""))
    memory_mb = max(case.memory_mb, 8192) if case.memory_mb >= 2048 else case.memory_mb
    changed = dataclasses.replace(case, **{"memory_mb": memory_mb, **changes})  # type: ignore[arg-type]
    return dataclasses.replace(changed, source=_longer(changed.source)), why


def _longer(source: str) -> str:
    for old, new in _SIZES:
        source = source.replace(old, new)
    return source


def submission(sheet: Sheet, case: Case) -> Submission:
    """The request for a case that has been adapted where it runs on a GPU."""
    request = case.submission()
    if not sheet.on_gpu:
        return request
    task = request.task.model_copy(update={"reference": _longer(request.task.reference)})
    return request.model_copy(update={"task": task})


def _failure_problems(case: Case, failure: Failure) -> list[str]:
    wrong = [
        f"{name} {seen}, not {due}"
        for name, seen, due in (
            ("code", failure.code, case.code),
            ("stage", failure.stage, case.stage),
            ("line", failure.line, case.line),
        )
        if due is not None and seen != due
    ]
    if len(failure.message) >= 10_000 or len(failure.traceback) >= 20_000:
        wrong.append("words were not cut")
    if "/root" in failure.traceback:
        wrong.append("a path of the host in the traceback")
    return wrong


def problems(case: Case, result: EvalResult) -> list[str]:
    """What is not as it must be."""
    failure, wrong = result.failure, []
    outcome, code = case.outcome, case.code
    polled = "memory_cgroup" in result.provenance.jail_missing
    if polled and case.where_polled is not None and result.outcome is case.where_polled[0]:
        outcome, code = case.where_polled
    if result.outcome is not outcome:
        wrong.append(f"outcome {result.outcome.value}, not {outcome.value}")
    if failure is not None:
        wrong += _failure_problems(dataclasses.replace(case, code=code), failure)
    elif code is not None:
        wrong.append(f"no failure, where code {code} is due")
    if case.finding is not None and case.finding not in [f.id for f in result.findings]:
        wrong.append(f"no finding {case.finding}")
    late_s = candidate_s(result) - case.timeout_s
    if late_s > AFTER_DEADLINE_S:
        wrong.append(f"{late_s:.2f} s after its deadline")
    return wrong


async def one(sheet: Sheet, host: EvaluationHost, level: str, case: Case) -> dict:
    """One case."""
    why = ""
    if sheet.on_gpu:
        case, why = adapted(case)
    try:
        result = await host.evaluate(submission(sheet, case))
    except (KernelGymError, OSError) as error:
        return {"right": False, "wrong": [f"{type(error).__name__}: {error}"[:2000]]}
    wrong = problems(case, result)
    if result.provenance.jail and result.provenance.jail != level:
        wrong.append(f"level {result.provenance.jail}")
    found = describe(result) | {"right": not wrong, "wrong": wrong, "adapted": why}
    return found | {"timeout_s": case.timeout_s}


async def batch(sheet: Sheet, host: EvaluationHost, level: str, cases: list[Case]) -> None:
    """Some cases at once, then an honest one on the same zygote."""
    entries = await asyncio.gather(*(one(sheet, host, level, case) for case in cases))
    honest = adapted(HONEST_CASE)[0] if sheet.on_gpu else HONEST_CASE
    started = time.monotonic()
    after = await host.evaluate(submission(sheet, honest))
    common: dict = {"honest": after.outcome.value, "honest_after": len(cases)}
    common["honest_s"] = round(time.monotonic() - started, 3)
    if after.outcome is not Outcome.CORRECT:
        common |= {"right": False, "honest_failure": describe(after)}
    for case, found in zip(cases, entries, strict=True):
        sheet.put(f"{level}/{case.name}", found | common)


async def level_of(sheet: Sheet, level: str, cases: list[Case], lanes: int) -> str:
    """All cases of one level; why there are none, where the level cannot be had."""
    waiting = [case for case in cases if level in case.levels]
    if all(sheet.has(f"{level}/{case.name}") for case in waiting):
        return ""
    waiting = [case for case in waiting if not sheet.has(f"{level}/{case.name}")]
    async with sheet.host(level, concurrency=lanes) as host:
        honest = adapted(HONEST_CASE)[0] if sheet.on_gpu else HONEST_CASE
        probe = await host.evaluate(submission(sheet, honest))
        if probe.outcome is Outcome.INFRASTRUCTURE:
            assert probe.failure is not None
            return probe.failure.message[:500]
        for start in range(0, len(waiting), lanes):
            if sheet.left_s() < MIN_LEFT_S:
                break
            await batch(sheet, host, level, waiting[start : start + lanes])
    return ""


async def run(sheet: Sheet) -> None:
    """All levels at once, each with batches of its own size."""
    everything = [case for case in CASES if not sheet.dry_run or case.name in DRY]
    chosen = [case for case in everything if case.name in CHOSEN]
    plan = [("L1", everything, sheet.lanes)] + [(level, chosen, 2) for level in ELSEWHERE]
    refused: dict[str, str] = {}
    with contextlib.suppress(TimeoutError):
        answers = await asyncio.wait_for(
            asyncio.gather(*(level_of(sheet, *part) for part in plan)), max(1.0, sheet.left_s())
        )
        refused = {part[0]: text for part, text in zip(plan, answers, strict=True) if text}
    sheet.fact("levels_not_to_be_had", refused)
    sheet.fact("adapted", {name: why for name, (_, why) in ADAPTED.items()} if sheet.on_gpu else {})
    wanted = {
        f"{level}/{case.name}"
        for level, cases, _ in plan
        for case in cases
        if level in case.levels and level not in refused
    }
    sheet.fact("complete", "L1" not in refused and wanted <= set(sheet.steps))
