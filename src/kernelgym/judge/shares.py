"""Shares of device time that own kernels have earned: taken back where they have not.

* A kernel that nobody misses, or that only copies, is own and has no share.
* A profile that the judge's clock contradicts gives no coverage at all: kernels of a library may
  have been hidden, or own ones invented. So does one in which own kernels claim more of a call than
  it loses when they are turned off.

Both lower a number and accuse nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from kernelgym.judge.dossier import Dossier, Measured
from kernelgym.schema import Finding, KernelRecord, Mode

SUSPICIOUS = 10.0
"""A speedup above this is remarked upon."""
UNEXPLAINED = 0.25
"""Device time of a profiled call may differ from the time of a timed one by this part."""
UNEXPLAINED_US = 20.0
_WITHHELD = "withheld: the profile does not agree with the judge's clock"


def effect_of(dossier: Dossier, name: str, *, own: bool) -> Literal["idle", "copy", ""]:
    """Why a kernel earns nothing; empty for one that does its work."""
    kind = dossier.idle.get(name, "") if own else ""
    return "idle" if kind == "idle" else "copy" if kind == "copy" else ""


def credited(dossier: Dossier) -> Measured:
    """What was measured, with coverage of what was earned."""
    measured = dossier.measured
    kernels = tuple(
        kernel.model_copy(update={"effect": effect_of(dossier, kernel.name, own=kernel.own)})
        for kernel in measured.kernels
    )
    measured = replace(measured, kernels=kernels)
    if measured.coverage is None:
        return measured
    if contradictions(dossier):
        reasons = measured.not_measured | dict.fromkeys(("coverage", "displaced"), _WITHHELD)
        return replace(measured, coverage=None, displaced=None, not_measured=reasons)
    if any(kernel.effect for kernel in kernels):
        return _without_idle(measured, kernels)
    return measured


def _without_idle(measured: Measured, kernels: tuple[KernelRecord, ...]) -> Measured:
    """The worse mode's coverage by the kernels that count."""
    assert measured.coverage is not None
    earned = {
        mode: sum(k.share or 0.0 for k in kernels if k.mode == mode and k.own and not k.effect)
        for mode in {kernel.mode for kernel in kernels}
    }
    coverage = min([measured.coverage, *earned.values()])
    total = measured.total_us
    generated = None if total is None else coverage * total
    displaced = measured.displaced if coverage > 0 else 0.0
    return replace(measured, coverage=coverage, displaced=displaced, generated_us=generated)


def suspicious_speedup(dossier: Dossier) -> list[Finding]:
    """A speedup that somebody should look at. It stands: it was measured twice."""
    worst = min((timing.speedup for timing in dossier.measured.timings), default=0.0)
    if worst <= SUSPICIOUS:
        return []
    text = f"{worst:.1f} times as fast as the reference, also in a fresh process"
    return [Finding(id="suspicious_speedup", severity="warning", message=text, evidence="outside")]


def contradictions(dossier: Dossier) -> list[Finding]:
    """Where the profile and the clock of record contradict each other."""
    measured = dossier.measured
    found = [f for f in measured.findings if f.id == "profile_contradiction"]
    timings = {timing.mode: timing.kernel_ms * 1e3 for timing in measured.timings}
    for mode, call_us in timings.items():
        profiled = sum(k.time_us or 0.0 for k in measured.kernels if k.mode == mode)
        if profiled > (1 + UNEXPLAINED) * call_us + UNEXPLAINED_US:
            text = f"in {mode} mode the profile claims {profiled:.1f} us of device time a call, "
            found.append(
                Finding(
                    id="profile_contradiction",
                    severity="warning",
                    message=f"{text}a timed call takes {call_us:.1f} us",
                    evidence="outside",
                )
            )
    return found + _not_lost(dossier, timings)


def _not_lost(dossier: Dossier, timings: Mapping[Mode, float]) -> list[Finding]:
    """Own kernels that claim more of a call than it loses when they are turned off."""
    found = []
    for mode, off_us in dossier.off_us.items():
        own = [k for k in dossier.measured.kernels if k.mode == mode and k.own]
        claimed = sum(kernel.time_us or 0.0 for kernel in own)
        if mode not in timings or not claimed:
            continue
        lost = timings[mode] - off_us
        if claimed > lost + UNEXPLAINED * claimed + UNEXPLAINED_US:
            text = (
                f"in {mode} mode own kernels claim {claimed:.1f} us of a call of "
                f"{timings[mode]:.1f} us, which takes {off_us:.1f} us with all of them off"
            )
            found.append(
                Finding(
                    id="profile_contradiction",
                    severity="warning",
                    message=text,
                    evidence="outside",
                )
            )
    return found
