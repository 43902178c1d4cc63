"""cuInit in the whole jail and at L0; where it fails, the protection that breaks it, one by one."""

import json
import os
from collections.abc import Callable, Iterator

from kernelgym.errors import KernelGymError
from kernelgym.sandbox import cgroup_places
from kernelgym.sandbox.jail import JailSpec, end
from kernelgym.sandbox.jail_spec import PROTECTIONS
from kernelgym.sandbox.zygote_client import ZygoteClient
from kernelgym.worker import gpu

ROLE = {"probe": "gpu_probe_role:main"}
LIMIT_S = 25.0


def steps(dry_run: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    """The whole jail, no jail, L0, and then a bisection of each level that fails."""
    yield "jail", lambda: look(dry_run)


def look(dry_run: bool) -> dict:
    found: dict = {"cgroups_before": cgroup_places.facts(), "delegated": cgroup_places.delegate()}
    found["cgroups"] = cgroup_places.facts()
    client = ZygoteClient(roles=ROLE, gpu=not dry_run)
    client.start()
    try:
        found["whole"] = attempt(client, dry_run)
        found["again"] = attempt(client, dry_run)
        found["none"] = attempt(client, dry_run, level="none")
        found["L0"] = attempt(client, dry_run, level="L0")
        for level, key in (("L1", "whole"), ("L0", "L0")):
            if not found[key].get("right"):
                found[f"{level} without"] = bisect(client, dry_run, level)
    finally:
        client.close()
    if not found["none"].get("right"):
        raise AssertionError(f"fails without a jail, too: {found['none']}")
    return found


def bisect(client: ZygoteClient, dry_run: bool, level: str) -> dict:
    """One protection off at a time; then, if none alone is to blame, off one after the other."""
    names = PROTECTIONS[level]
    single = {name: attempt(client, dry_run, level=level, without=(name,)) for name in names}
    helped = [name for name, found in single.items() if found.get("right")]
    result: dict = {"single": single, "helped": helped}
    if not helped:
        off: tuple[str, ...] = ()
        for name in names:
            off = (*off, name)
            if attempt(client, dry_run, level=level, without=off).get("right"):
                result["together"] = off
                break
    return result


def attempt(
    client: ZygoteClient, dry_run: bool, *, level: str = "L1", without: tuple[str, ...] = ()
) -> dict:
    """Fork the probe in a jail; what it could do."""
    spec = JailSpec(level=level, memory_bytes=16 << 30, gpu=True, without=without, processes=512)
    read, write = os.pipe()
    environment = {**gpu.environment(0), "PROBE": "dry" if dry_run else "gpu"}
    environment |= {k: os.environ[k] for k in ("LD_LIBRARY_PATH",) if k in os.environ}
    try:
        launched = client.fork("native", "probe", spec, [write], environment)
    except KernelGymError as error:
        os.close(read)
        return {"error": str(error)[:500]}
    finally:
        os.close(write)
    answer = read_all(read)
    ended = end(launched)
    found = {"level": launched.level, "missing": launched.missing, "ready_ms": launched.ready_ms}
    found |= {"status": ended.status, "survivors": ended.survivors}
    try:
        return found | json.loads(answer)
    except ValueError:
        return found | {"error": f"no answer: {answer[:200]!r}"}


def read_all(fd: int) -> bytes:
    import select
    import time

    deadline, data = time.monotonic() + LIMIT_S, b""
    with os.fdopen(fd, "rb", buffering=0) as file:
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([file], [], [], left)[0]:
                break
            part = file.read(65536)
            if not part:
                break
            data += part
    return data
