"""The doctor's checks that need torch, Triton, a driver or a jail: children with deadlines."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kernelgym.cli.checks import Check

_DEADLINE_S = 120.0
_INSTALL_FIX = "pip install 'drkernel[worker]'"
_JAIL_FIX = (
    "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1);"
    " docs/jail.md has the container flags; or accept less: kernelgym eval ... --jail L0"
)
_NO_GPU = "correctness, compile report and hack checks work without one"


@dataclass(frozen=True)
class Answer:
    """What a child printed, or why it printed nothing."""

    data: dict[str, Any] | None
    error: str = ""


def ask(*command: str, deadline_s: float = _DEADLINE_S) -> Answer:
    """Run ``python -m COMMAND`` and parse the last line of its output as JSON."""
    with tempfile.TemporaryDirectory(prefix="kernelgym-doctor-") as home:
        try:
            done = subprocess.run(
                [sys.executable, "-m", *command],
                capture_output=True,
                text=True,
                timeout=deadline_s,
                check=False,
                env=_environment(home),
            )
        except subprocess.TimeoutExpired:
            return Answer(None, f"no answer within {deadline_s:.0f} s")
    lines = done.stdout.strip().splitlines()
    try:
        data = json.loads(lines[-1]) if lines else None
    except ValueError:
        data = None
    if isinstance(data, dict):
        return Answer(data)
    errors = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return Answer(None, errors[-1][:300])


def _environment(home: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TRITON_")}
    return kept | {"TRITON_CACHE_DIR": home, "OMP_NUM_THREADS": "1"}


def probe_checks() -> list[Check]:
    """Everything that needs a child, two children at a time."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        return [
            check
            for checks in pool.map(
                lambda probe: probe(), (toolchain, interpreter, cross_compile, gpu, jail)
            )
            for check in checks
        ]


def toolchain() -> list[Check]:
    """Versions of torch and Triton, against what is supported."""
    answer = ask("kernelgym.cli.probe", "toolchain")
    if answer.data is None:
        return [Check("torch and triton", "failed", answer.error, _INSTALL_FIX)]
    build = answer.data["torch_cuda"]
    torch, triton = str(answer.data["torch"]), str(answer.data["triton"])
    kind = f"built for CUDA {build}" if build else "CPU build"
    return [
        _supported("torch", torch, (2, 11), None, f"{torch}, {kind}"),
        _supported("triton", triton, (3, 6), (3, 10), triton),
    ]


def _supported(
    name: str, version: str, low: tuple[int, int], high: tuple[int, int] | None, found: str
) -> Check:
    parts = version.split(".")
    have = (int(parts[0]), int(parts[1]))
    wanted = f"{name}>={low[0]}.{low[1]}" + (f",<{high[0]}.{high[1]}" if high else "")
    if have < low or (high is not None and have >= high):
        return Check(name, "failed", f"{found}; supported: {wanted}", f"pip install '{wanted}'")
    return Check(name, "ok", found)


def interpreter() -> list[Check]:
    """Whether candidates can run without a GPU."""
    answer = ask("kernelgym.cli.probe", "interpreter")
    if answer.data is not None and answer.data.get("right"):
        return [Check("interpreter", "ok", "Triton kernels run on CPU tensors")]
    found = answer.error or "a kernel gave wrong values in Triton's interpreter"
    return [Check("interpreter", "failed", found, _INSTALL_FIX)]


def cross_compile() -> list[Check]:
    """Whether kernels can be compiled for GPUs that are not here."""
    answer = ask("kernelgym.cli.probe", "cross_compile")
    if answer.data is None:
        fix = "pip install --force-reinstall triton (its wheel brings ptxas)"
        return [Check("cross-compile", "failed", answer.error, fix)]
    targets = ", ".join(answer.data["cubin_bytes"])
    return [Check("cross-compile", "ok", f"{targets} without a GPU")]


def gpu() -> list[Check]:
    """GPUs and driver."""
    answer = ask("kernelgym.cli.probe", "gpu", deadline_s=20.0)
    if answer.data is None or answer.data.get("error"):
        found = answer.error or str((answer.data or {}).get("error"))
        return [Check("gpu", "failed", f"the driver does not answer: {found}", "nvidia-smi")]
    if not answer.data["gpus"]:
        return [Check("gpu", "warning", "none: no timing, no profile", _NO_GPU)]
    return [_gpu_check(item, str(answer.data["driver"])) for item in answer.data["gpus"]]


def _gpu_check(item: dict[str, Any], driver: str) -> Check:
    found = (
        f"{item['name']}, driver {driver}, {item['free_gib']} of {item['memory_gib']} GiB free,"
        f" {item['clock_mhz']} of {item['max_clock_mhz']} MHz,"
        f" persistence {'on' if item['persistence'] else 'off'}"
    )
    name = f"gpu {item['index']}"
    if not item["persistence"]:
        return Check(name, "warning", found, "nvidia-smi -pm 1 (as root): first calls are slow")
    return Check(name, "ok", found)


def jail() -> list[Check]:
    """Level of confinement that holds when it is attacked."""
    on_gpu = bool(glob.glob("/dev/nvidia[0-9]*"))
    spec = {"level": "L1", "memory_bytes": 512 << 20, "fallback": True}
    spec |= {"gpu": on_gpu, "seals": on_gpu}
    answer = ask("kernelgym.sandbox.selftest", json.dumps(spec))
    if answer.data is None or "error" in answer.data:
        found = answer.error or str((answer.data or {}).get("error"))
        return [Check("jail", "failed", found, _JAIL_FIX)]
    level, missing = str(answer.data["level"]), ", ".join(answer.data["missing"])
    found = f"{level}, attacked and held" + (f"; missing: {missing}" if missing else "")
    if level == "L1":
        return [Check("jail", "ok", found)]
    refused = "; ".join(str(text) for text in answer.data["breaches"][:3])
    return [
        Check("jail", "warning", f"{found}; not L1{': ' + refused if refused else ''}", _JAIL_FIX)
    ]
