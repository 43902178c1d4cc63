"""The report of an experiment: tables, page, figures, and every number as JSON.

claims.md runs.md     the two tables          table.txt    both, for a terminal
miniature.json        every number            figures/     PNG, SVG and CSV
report.html           all of it on one page
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drkernel.miniature.claims import Seen, check_all
from drkernel.miniature.curves import curve_of, trend
from drkernel.miniature.figures import all_figures
from drkernel.miniature.runs import Experiment, Trained
from drkernel.report.page import page, picture
from drkernel.report.style import can_draw, save
from drkernel.report.tables import Table
from drkernel.rollout.directory import write_whole

TREND = "reward/mean"
"""Metric that says whether an arm was still learning."""


def write_miniature(experiment: Experiment, out: Path) -> list[Table]:
    """Write everything into ``out``; the tables, for the terminal."""
    out.mkdir(parents=True, exist_ok=True)
    seen = check_all(experiment)
    tables = [claims_table(seen), runs_table(experiment)]
    for name, table in zip(("claims", "runs"), tables, strict=True):
        write_whole(out / f"{name}.md", table.markdown())
    write_whole(out / "table.txt", "\n".join(table.text() for table in tables))
    numbers = {"claims": [_claim_record(one) for one in seen], "runs": _run_records(experiment)}
    write_whole(out / "miniature.json", json.dumps(numbers, indent=1) + "\n")
    pictures = _draw(experiment, out / "figures") if can_draw() else []
    text = page(
        "Training runs side by side",
        notes=warnings_of(experiment),
        figures=[picture(one) for one in pictures],
        tables=tables,
        footer="protocol: docs/reproduction.md",
    )
    write_whole(out / "report.html", text)
    return tables


def claims_table(seen: Sequence[Seen]) -> Table:
    """Claim, what is seen, with its interval, verdict."""
    rows = tuple((one.claim, one.measure, one.seen, one.verdict) for one in seen)
    note = "Differences with 95% intervals. The verdict follows from the interval alone."
    return Table("Claims", ("claim", "measure", "seen here", "verdict"), rows, note)


def runs_table(experiment: Experiment) -> Table:
    """What each run was, how many checkpoints were looked at, and whether it was still rising."""
    head = (
        "arm", "seed", "steps", "validated checkpoints", "best at", "its score",
        "held-out evaluations", "evaluations", "reused", "reward at the end",
    )  # fmt: skip
    rows = []
    for record in _run_records(experiment):
        best = record["best_step"]
        rows.append(
            (
                record["arm"],
                str(record["seed"]),
                f"{record['steps']} of {record['planned_steps']}",
                str(record["validated_checkpoints"]),
                "-" if best is None else f"step {best}",
                "-" if best is None else f"{record['best_score']:.4f}",
                str(record["held_out_evaluations"]),
                f"{record['evaluations']:.0f}",
                f"{record['reused']:.0f}",
                record["trend"],
            )
        )
    note = (
        "Checkpoints are chosen on validation tasks. Reused evaluations carry an old timing and "
        "are no new sample."
    )
    return Table("Runs", head, tuple(rows), note)


def warnings_of(experiment: Experiment) -> list[str]:
    """What a reader must know before believing a figure."""
    said = []
    for run in experiment.trained:
        name = f"{run.arm}, seed {run.seed}"
        if run.steps < run.settings.steps:
            said.append(f"{name}: {run.steps} of {run.settings.steps} steps")
        steps = [one.step for one in experiment.evaluations if one.run is run]
        if len(steps) > 1:
            said.append(f"{name}: held-out tasks were looked at {len(steps)} times")
        for step in steps:
            if run.best is not None and step != run.best:
                said.append(f"{name}: step {step} was held out, validation chose step {run.best}")
    return said


def _run_records(experiment: Experiment) -> list[dict[str, Any]]:
    runs = [run for arm in experiment.arms for run in experiment.of(arm)]
    return [_run_record(experiment, run) for run in runs]


def _run_record(experiment: Experiment, run: Trained) -> dict[str, Any]:
    best = run.best
    return {
        "arm": run.arm,
        "seed": run.seed,
        "path": str(run.path),
        "steps": run.steps,
        "planned_steps": run.settings.steps,
        "validated_checkpoints": len(run.scores),
        "best_step": best,
        "best_score": None if best is None else run.scores[best],
        "held_out_evaluations": sum(one.run is run for one in experiment.evaluations),
        "evaluations": run.total("evaluations/used"),
        "reused": run.total("evaluations/reused"),
        "trend": trend(curve_of([run], TREND)),
    }


def _claim_record(one: Seen) -> dict[str, Any]:
    found = one.difference
    interval = None if found is None else [_finite(end) for end in found.interval]
    return {
        "claim": one.claim,
        "measure": one.measure,
        "difference": None if found is None else _finite(found.difference),
        "interval": interval,
        "p_value": None if found is None else _finite(found.p_value),
        "why_not": one.why_not,
        "verdict": one.verdict,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _draw(experiment: Experiment, directory: Path) -> list[Path]:
    from drkernel.report.scaling import arms_by_turn

    drawn = all_figures(experiment)
    for number, one in enumerate(experiment.scalings):
        summary = _scale_summary(one.path)
        if summary is not None:
            name = "fig6_scaling" + (f"_{number + 1}" if number else "")
            drawn[name] = arms_by_turn(summary)
    ordered = sorted(drawn.items())
    return [save(figure, data, directory, name)[1] for name, (figure, data) in ordered]


def _scale_summary(path: Path) -> Any:
    from drkernel.scale.summary import ScaleSummary

    stored = path / "scale.json"
    return ScaleSummary.model_validate_json(stored.read_text("utf-8")) if stored.exists() else None
