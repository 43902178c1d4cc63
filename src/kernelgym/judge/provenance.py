"""What a result rests on: versions, hashes, seeds, confinement, and how each field is known."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from kernelgym import __version__
from kernelgym.judge import noise, switches
from kernelgym.judge.dossier import Dossier
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.verdict import Ruling
from kernelgym.schema import Evidence, JailLevel, Provenance, Submission

_LEVELS: dict[str, JailLevel] = {"L1": "L1", "L0": "L0", "none": "none"}


def provenance(
    submission: Submission, task: PreparedTask, dossier: Dossier, ruling: Ruling
) -> Provenance:
    """Everything but times, which the host adds."""
    name, uuid, driver = _gpu(task.device)
    return Provenance(
        source_hash=submission.source_hash,
        task_hash=submission.task.content_hash,
        device=name,
        gpu_uuid=uuid,
        driver=driver,
        versions=versions(),
        jail=_LEVELS[dossier.jail],
        jail_missing=dossier.jail_missing,
        protocol=submission.protocol,
        precision=submission.precision,
        flags=_flags(submission, task, dossier),
        seeds={"init": task.init_seed, **dossier.seeds},
        evidence=_evidence(
            ruling, on_gpu=task.device != "cpu", timed=bool(dossier.measured.timings)
        ),
    )


def _gpu(device: str) -> tuple[str, str | None, str | None]:
    """Name, UUID and CUDA version of the driver."""
    if device == "cpu":
        return device, None, None
    from kernelgym.judge.deck import deck

    facts = deck().facts
    version_number = f"{facts.driver_version // 1000}.{facts.driver_version % 1000 // 10}"
    return facts.name, facts.uuid, f"CUDA {version_number}"


def versions() -> dict[str, str]:
    """Versions of what computes."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "missing"
    return {
        "kernelgym": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "triton": triton,
        "linux": os.uname().release,
    }


def _flags(submission: Submission, task: PreparedTask, dossier: Dossier) -> dict[str, str]:
    flags = switches.flags(dossier.switches, task.switches) | {
        "noise": noise.described(task.reference.dtype, task.reference.device),
        "baseline": submission.baseline,
        "fp_fusion": "1",
        "probes": " ".join(dossier.probes),
    }
    worst = max((max(values, default=0.0) for values in task.study.noise.values()), default=0.0)
    flags["noise_worst"] = f"{worst:.3e}"
    if any("autotune" in note for note in dossier.notes):
        flags["autotune"] = "cut to one configuration"
    if dossier.peak_bytes is not None:
        flags["peak_memory_mb"] = f"{dossier.peak_bytes / 2**20:.0f}"
    return flags


def _evidence(ruling: Ruling, *, on_gpu: bool, timed: bool) -> dict[str, Evidence]:
    """On a CPU nothing confirms from outside what the candidate's process records; on a GPU the
    judge's marks do."""
    hack = next((f for f in ruling.findings if f.severity == "hack"), None)
    raised = ruling.failure is not None and bool(ruling.failure.type)
    failure: Evidence = "claimed" if raised else "outside"
    if hack is not None:
        failure = hack.evidence
    found: dict[str, Evidence] = {
        "outcome": failure,
        "correct": "outside",
        "trials": "outside",
        "failure": failure,
        "profile.kernels": "inside" if on_gpu else "claimed",
        "profile.compiled": "claimed",
        "profile.operators": "census",
    }
    if on_gpu:
        found |= {"timings": "outside", "speedup": "outside"}
        found |= {"coverage": "inside", "displaced": "inside"}
    elif timed:
        found |= {"timings": "claimed", "speedup": "claimed", "coverage": "claimed"}
    return found
