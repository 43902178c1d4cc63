"""What every committed result says about where it comes from."""

import hashlib
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kernelgym.errors import ServiceError
from kernelgym.worker import gpu


def today() -> str:
    """Date in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


def machine() -> dict[str, object]:
    """Processor, cores, memory, kernel, GPUs."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(pages / (1 << 30), 1),
        "linux": platform.release(),
        "gpu": gpu_names(),
    }


def gpu_names() -> str | None:
    """Names and driver of the GPUs, as NVML says; None without one, or when it does not answer."""
    try:
        found = gpu.facts()
    except ServiceError:
        return None
    names = ", ".join(facts.name for facts in found)
    return f"{names} (driver {found[0].driver})" if found else None


def versions(*names: str) -> dict[str, str]:
    """Versions of Python and of installed packages."""
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit(directory: Path) -> str:
    """Commit of a checkout, with ``+`` when it was changed; empty when it is none.

    ``SOURCE_COMMIT`` says it for sources that were exported to another machine.
    """
    if given := os.environ.get("SOURCE_COMMIT"):
        return given
    git = ["git", "-C", str(directory)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    dirty = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no"],
        capture_output=True,
        text=True,
        check=False,
    )
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")


def digest(files: list[Path]) -> str:
    """SHA-256 over names and contents, for sources that are no checkout."""
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def write(path: Path, name: str, body: dict[str, object]) -> None:
    """Write a result with its circumstances first."""
    head = {
        "benchmark": name,
        "date": today(),
        "command": " ".join(["python", *sys.argv]),
        "commit": commit(Path(__file__).parent),
        "machine": machine(),
        "versions": versions("drkernel", "torch", "triton", "numpy"),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(head | body, indent=1) + "\n")
