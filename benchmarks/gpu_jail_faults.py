"""Section ``faults``: what a candidate can do to a GPU, and how soon the next one is judged right.

Each fault runs several times on one host. Afterwards an honest candidate is judged until it is
right; then device memory must be back within 50 MB of what it was before the fault. On a CPU only
those run that mean something there (a wild store is a segmentation fault).
"""

import time
from dataclasses import dataclass, replace

from cases import HONEST_CASE, Case, forward

from gpu_jail_outcomes import adapted, problems, submission
from gpu_jail_sheet import Sheet, describe, device_bytes, judge_pids, quantiles, xids
from kernelgym.schema import Outcome
from kernelgym.worker.host import EvaluationHost

REPEATS = 3
RECOVERY_LIMIT_S = 5.0
MEMORY_SLACK_BYTES = 50_000_000
KERNELS = """
@triton.jit
def wild_kernel(out, distance):
    tl.store(out + distance + tl.arange(0, 128), 1.0)


@triton.jit
def misaligned_kernel(out):
    address = out.to(tl.int64) + 1
    pointer = address.to(tl.pointer_type(tl.float32))
    tl.store(pointer + tl.arange(0, 128), 1.0)


@triton.jit
def endless_kernel(flag, out):
    value = tl.load(flag, volatile=True)
    while value == 0:
        value = tl.load(flag, volatile=True)
    tl.store(out, value)


def endless(x):
    flag = torch.zeros(1, dtype=torch.int32, device=x.device)
    out = torch.zeros(1, dtype=torch.int32, device=x.device)
    if ON_GPU:
        endless_kernel[(1,)](flag, out)
    return flag, out
"""


@dataclass(frozen=True)
class Fault:
    """A candidate, what must come out, and what on a CPU (None: nothing to be seen there)."""

    case: Case
    on_cpu: tuple[Outcome, str] | None


def _fault(
    name: str,
    body: str,
    outcome: Outcome,
    code: str,
    on_cpu: tuple[Outcome, str] | None = None,
    timeout_s: float = 20.0,
) -> Fault:
    case = Case(name, forward(body, KERNELS), outcome, code, "forward", timeout_s=timeout_s,
                memory_mb=8192)  # fmt: skip
    return Fault(case, on_cpu)


RUNTIME = (Outcome.RUNTIME_ERROR, "forward_error")
LATE = (Outcome.TIMEOUT, "deadline")
LEFT = (Outcome.CRASH, "early_exit")
NO_MEMORY = (Outcome.OUT_OF_MEMORY, "exception_out_of_memory")
FAULTS = [
    _fault("illegal_address", """
        out = add(x, y)
        wild_kernel[(1,)](out, 1 << 40)
        return out
        """, *RUNTIME, on_cpu=(Outcome.CRASH, "signal")),
    _fault("misaligned_address", """
        out = add(x, y)
        misaligned_kernel[(1,)](out)
        return out
        """, *RUNTIME),
    _fault("device_assert", """
        table = torch.rand(16, 512, device=x.device)
        rows = torch.full((4,), 1000, dtype=torch.int64, device=x.device)
        return torch.nn.functional.embedding(rows, table)[0]
        """, *RUNTIME, on_cpu=RUNTIME),
    _fault("device_assert_gather", """
        rows = torch.full((512,), x.numel() + 7, dtype=torch.int64, device=x.device)
        return torch.gather(x, 0, rows)
        """, *RUNTIME, on_cpu=RUNTIME),
    _fault("endless_kernel", """
        endless(x)
        while not ON_GPU:
            pass
        return add(x, y)
        """, *LATE, on_cpu=LATE, timeout_s=3.0),
    _fault("out_of_device_memory", """
        size = 1 << 30 if ON_GPU else 1 << 50
        hoard = []
        while True:
            hoard.append(torch.empty(size, dtype=torch.uint8, device=x.device))
        """, *NO_MEMORY, on_cpu=NO_MEMORY),
    _fault("sticky_error_swallowed", """
        out = add(x, y)
        if ON_GPU:
            torch.cuda.synchronize()
        try:
            wild_kernel[(1,)](out, 1 << 40)
            torch.cuda.synchronize()
        except Exception:
            pass
        return out
        """, *RUNTIME, on_cpu=(Outcome.CRASH, "signal")),
    _fault("leaves_in_mid_kernel", """
        endless(x)
        time.sleep(0.2)
        os._exit(0)
        """, *LEFT, on_cpu=LEFT),
    _fault("sleeps_in_mid_kernel", """
        endless(x)
        time.sleep(60)
        """, *LATE, on_cpu=LATE, timeout_s=3.0),
]  # fmt: skip


async def recover(sheet: Sheet, host: EvaluationHost, honest: Case) -> dict:
    """Judge honest candidates until one is right; seconds and tries that took."""
    started, tries = time.monotonic(), 0
    while True:
        result = await host.evaluate(submission(sheet, honest))
        tries += 1
        spent = time.monotonic() - started
        if result.outcome is Outcome.CORRECT or spent > 4 * RECOVERY_LIMIT_S:
            right = result.outcome is Outcome.CORRECT and spent <= RECOVERY_LIMIT_S
            last = {} if result.outcome is Outcome.CORRECT else {"last": describe(result)}
            return {"recovered": right, "recovery_s": round(spent, 3), "tries": tries, **last}


def wait_for_memory(sheet: Sheet, before: int | None) -> dict:
    """Until device memory is back; how much is missing, and for how long it was looked."""
    if before is None:
        return {"memory_back": True}
    started = time.monotonic()
    while True:
        now = device_bytes(sheet)
        assert now is not None
        spent = time.monotonic() - started
        if now <= before + MEMORY_SLACK_BYTES or spent > RECOVERY_LIMIT_S:
            return {
                "memory_back": now <= before + MEMORY_SLACK_BYTES,
                "memory_difference_mb": round((now - before) / 1e6, 1),
                "memory_seen_after_s": round(spent, 3),
            }


async def one(sheet: Sheet, host: EvaluationHost, fault: Fault, honest: Case, name: str) -> None:
    case = fault.case
    if not sheet.on_gpu:
        assert fault.on_cpu is not None
        case = replace(case, outcome=fault.on_cpu[0], code=fault.on_cpu[1])
    if sheet.on_gpu:
        case, _ = adapted(case)
    case = replace(case, source=f"ON_GPU = {sheet.on_gpu}\n{case.source}")
    before, judges = device_bytes(sheet), judge_pids(host)
    result = await host.evaluate(submission(sheet, case))
    wrong = problems(case, result)
    found = describe(result) | await recover(sheet, host, honest) | wait_for_memory(sheet, before)
    now = judge_pids(host)
    found["judge"] = "kept" if set(judges) <= set(now) else "replaced"
    if not found["recovered"]:
        wrong.append(f"next evaluation right after {found['recovery_s']} s only, or never")
    if not found["memory_back"]:
        wrong.append(f"{found['memory_difference_mb']} MB of the device are not back")
    sheet.put(name, found | {"right": not wrong, "wrong": wrong, "timeout_s": case.timeout_s})


async def run(sheet: Sheet) -> None:
    """Repeat after repeat, so that a short run has seen every fault once."""
    faults = [fault for fault in FAULTS if sheet.on_gpu or fault.on_cpu is not None]
    repeats = 1 if sheet.dry_run else REPEATS
    honest = adapted(HONEST_CASE)[0] if sheet.on_gpu else HONEST_CASE
    names = [f"{fault.case.name}/{turn}" for turn in range(repeats) for fault in faults]
    before = len(xids())
    async with sheet.host(concurrency=2) as host:
        warm = [(await host.evaluate(submission(sheet, honest))).outcome.value for _ in range(2)]
        sheet.fact("warm_up", warm)
        sheet.fact("device_bytes_idle", device_bytes(sheet))
        for name in names:
            if sheet.has(name):
                continue
            fault = next(f for f in faults if f.case.name == name.partition("/")[0])
            if sheet.left_s() < fault.case.timeout_s % 20 + 4.0:
                break
            await one(sheet, host, fault, honest, name)
        sheet.fact("device_bytes_at_end", device_bytes(sheet))
    sheet.fact("xids_caused", len(xids()) - before)
    done = [sheet.steps[name] for name in names if name in sheet.steps]
    sheet.fact("recovery_s", quantiles([step["recovery_s"] for step in done]))
    sheet.fact(
        "judges", {word: sum(s["judge"] == word for s in done) for word in ("kept", "replaced")}
    )
    sheet.fact("complete", len(done) == len(names))
