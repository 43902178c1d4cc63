"""Section ``starts``: from the request to a jailed process that is ready, one at a time.

*ready* is the first line of a role's code in the jail; *context* the moment when CUDA and torch
can be used in it, while another context (a judge's) is alive, as always in service. *end* is until
the tree is proved dead. All as the host sees them, through a zygote with torch imported.
"""

import asyncio
import os
import select
import time

from gpu_jail_sheet import Sheet, quantiles
from kernelgym.errors import KernelGymError
from kernelgym.sandbox.jail import JailSpec, end
from kernelgym.sandbox.jail_spec import Launched
from kernelgym.sandbox.zygote_client import ZygoteClient
from kernelgym.worker import gpu
from kernelgym.worker.processes import END_TIMEOUT_S

ROLES = {"ready": "gpu_jail_roles:ready"}
LIMIT_S = 15.0
COUNTS = {"plain": 90, "context": 24}
"""At L1; a third of it at the other levels."""


def launch(
    client: ZygoteClient, sheet: Sheet, level: str, kind: str
) -> tuple[Launched, int, int, dict]:
    """Start one and wait until it is ready; times in milliseconds."""
    spec = JailSpec(level, 8 << 30, processes=128, gpu=sheet.on_gpu, trusted=True)
    environment = gpu.environment(gpu.index_of(sheet.device)) if sheet.on_gpu else {}
    environment |= {k: os.environ[k] for k in ("LD_LIBRARY_PATH",) if k in os.environ}
    environment |= {"CONTEXT": "1"} if kind == "context" else {}
    (read, write), (hold_read, hold_write) = os.pipe(), os.pipe()
    started = time.perf_counter()
    try:
        launched = client.fork("native", "ready", spec, [write, hold_read], environment)
    except BaseException:
        os.close(read)
        os.close(hold_write)
        raise
    finally:
        os.close(write)
        os.close(hold_read)
    times = {}
    for byte, name in ((b"r", "ready"), (b"c", "context"))[: 1 + (kind == "context")]:
        if not select.select([read], [], [], LIMIT_S)[0] or os.read(read, 1) != byte:
            raise TimeoutError(f"{kind} at {level}: no sign of {name}")
        times[name] = (time.perf_counter() - started) * 1e3
    return launched, read, hold_write, times | {"jail": launched.ready_ms}


def finish(launched: Launched, fds: tuple[int, int]) -> float:
    started = time.perf_counter()
    survivors = end(launched, END_TIMEOUT_S).survivors
    spent = (time.perf_counter() - started) * 1e3
    for fd in fds:
        os.close(fd)
    if survivors:
        raise AssertionError(f"{survivors} survivors")
    return spent


def series(client: ZygoteClient, sheet: Sheet, level: str, kind: str) -> dict:
    rows: list[dict] = []
    keeper = launch(client, sheet, level, kind) if kind == "context" else None
    missing: tuple[str, ...] = ()
    try:
        count = COUNTS[kind] if level == "L1" else COUNTS[kind] // 3
        for _ in range(5 if sheet.dry_run else count):
            if sheet.left_s() < 3.0:
                break
            launched, read, hold, times = launch(client, sheet, level, kind)
            missing = launched.missing
            rows.append(times | {"end": finish(launched, (read, hold))})
    finally:
        if keeper is not None:
            finish(keeper[0], keeper[1:3])
    found = {f"{key}_ms": quantiles([row[key] for row in rows]) for key in rows[0]}
    return found | {"missing": list(missing), "right": True}


def measure(sheet: Sheet) -> None:
    client = ZygoteClient(roles=ROLES, gpu=sheet.on_gpu)
    client.start()
    plan = [("L1", "plain"), ("none", "plain"), ("L0", "plain")]
    if sheet.on_gpu:
        plan = [
            ("L1", "plain"),
            ("L1", "context"),
            *plan[1:],
            ("none", "context"),
            ("L0", "context"),
        ]
    try:
        finish_first = launch(client, sheet, "none", "plain")  # wakes the flavour
        finish(finish_first[0], finish_first[1:3])
        for level, kind in plan:
            name = f"{level} {kind}"
            if sheet.has(name) or sheet.left_s() < 3.0:
                continue
            try:
                sheet.put(name, series(client, sheet, level, kind))
            except (KernelGymError, TimeoutError) as error:
                # L0 needs an interpreter that every user may read
                sheet.put(name, {"right": level == "L0", "error": str(error)[:1000]})
    finally:
        client.close()
    sheet.fact("complete", all(f"{level} {kind}" in sheet.steps for level, kind in plan))


async def run(sheet: Sheet) -> None:
    await asyncio.to_thread(measure, sheet)
