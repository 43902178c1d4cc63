"""A run directory: what was asked for, on what, and every result as it came.

config.json     what decides the results; a run is only continued under the same
config.digest   its SHA-256
env.json        versions and machine of the first start
results.jsonl   one line a candidate, appended whole
summary.json    counts and Fast@p
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernelgym import __version__
from kernelgym.bench.samples import Sample
from kernelgym.errors import UsageError
from kernelgym.schema import EVALUATOR_VERSION, EvalResult, Outcome

SPEEDUPS = (1.0, 1.2, 1.5, 2.0)
_PACKAGES = ("torch", "triton", "numpy")


class RunDirectory:
    """An open run."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        """Create it, or continue the run that is there, if that had the same configuration."""
        self.path = path
        whole = {**config, "evaluator_version": EVALUATOR_VERSION}
        text = json.dumps(whole, indent=2, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        path.mkdir(parents=True, exist_ok=True)
        known = path / "config.digest"
        if known.exists():
            if known.read_text().strip() != digest:
                raise UsageError(
                    f"{path} holds a run with another configuration (see {path}/config.json)",
                    hint="--out ANOTHER_DIRECTORY",
                )
        elif any(path.iterdir()):
            raise UsageError(f"{path} is not empty and holds no run", hint="--out DIRECTORY")
        else:
            (path / "config.json").write_text(text + "\n")
            (path / "env.json").write_text(json.dumps(_environment(), indent=2) + "\n")
            known.write_text(digest + "\n")

    def done(self) -> dict[tuple[str, int, str], EvalResult]:
        """Verdicts by task, number and source hash; what the gym failed is not among them."""
        found = {}
        for line in self._lines():
            try:
                record = json.loads(line)
                result = EvalResult.model_validate(record["result"])
            except (ValueError, KeyError, TypeError, ValidationError):
                continue  # a line that a crash cut short; that candidate is judged again
            if result.outcome is not Outcome.INFRASTRUCTURE:
                found[record["task"], record["sample"], record["source_hash"]] = result
        return found

    def _lines(self) -> list[str]:
        path = self.path / "results.jsonl"
        return path.read_text().splitlines() if path.exists() else []

    def add(self, sample: Sample, source_hash: str, result: EvalResult | None, note: str) -> None:
        """Append one result; on disk before this returns."""
        record = {
            "task": sample.task,
            "sample": sample.number,
            "file": sample.path.name,
            "source_hash": source_hash,
            "note": note,
            "result": None if result is None else result.model_dump(mode="json"),
        }
        with (self.path / "results.jsonl").open("a") as file:
            if file.tell() and not self._ends_with_newline():
                file.write("\n")
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _ends_with_newline(self) -> bool:
        with (self.path / "results.jsonl").open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def summarise(self, results: list[EvalResult | None]) -> dict[str, Any]:
        """Write and return the summary of a run."""
        summary = summary_of(results)
        (self.path / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        return summary


def summary_of(results: list[EvalResult | None]) -> dict[str, Any]:
    """Counts by outcome and, where speedups were measured, Fast@p over all judged candidates."""
    judged = [one for one in results if one and one.outcome is not Outcome.INFRASTRUCTURE]
    outcomes: dict[str, int] = {}
    for one in judged:
        outcomes[one.outcome.value] = outcomes.get(one.outcome.value, 0) + 1
    fast: dict[str, float] | None = None
    if judged and any(one.speedup is not None for one in judged):
        fast = {
            f"{bar:g}": sum((one.speedup or 0.0) > bar for one in judged) / len(judged)
            for bar in SPEEDUPS
        }
    return {
        "candidates": len(results),
        "judged": len(judged),
        "not_judged": len(results) - len(judged),
        "outcomes": dict(sorted(outcomes.items())),
        "fast_at": fast,
    }


def _environment() -> dict[str, Any]:
    versions = {"kernelgym": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"host": platform.node(), "linux": platform.release(), "versions": versions}
