"""What ``drkernel optimize`` says about its search, as Markdown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from drkernel.optimize.searching import Candidate, Found
from drkernel.optimize.settings import OptimizeSettings
from drkernel.report.episodes import outcome_of
from drkernel.report.rows import number_text
from kernelgym.schema import EvalResult, Task


def report_of(found: Found, task: Task, settings: OptimizeSettings, out: Path) -> str:
    """The report."""
    lines = [f"# {task.name}: a faster kernel", ""]
    lines += [verdict_of(found, settings), ""]
    if found.winner is not None:
        lines += _winner(found.winner, out)
    lines += ["## What was tried", "", *_tried(found)]
    lines += ["", "## What it cost", "", *_cost(found)]
    return "\n".join(lines) + "\n"


def verdict_of(found: Found, settings: OptimizeSettings) -> str:
    """One sentence."""
    winner = found.winner
    if winner is None:
        return "No candidate passed twice; the module stays as it is."
    if winner.speedup is None:
        return (
            "A correct candidate was found; its speed is unknown, since nothing can be timed here."
        )
    low, high = (winner.again.speedup_interval if winner.again else None) or (None, None)
    speed = f"{number_text(winner.speedup, low, high)} times as fast as the reference"
    if found.worthwhile:
        return f"A correct candidate is {speed}."
    return (
        f"The best correct candidate is {speed}, below the {settings.min_speedup:g} that would be"
        " worth a change."
    )


def _winner(winner: Candidate, out: Path) -> list[str]:
    again = winner.again
    lines = [
        f"`{out}` defines `ModelNew`, which takes the place of the module: same constructor, same"
        " `forward`, parameters of the same names.",
        "",
        f"* Attempt {winner.episode.sample + 1}, turn {winner.turn.index + 1} of"
        f" {len(winner.episode.turns)}; see `drkernel inspect RUN '{winner.episode.id}'`.",
    ]
    if again is not None:
        lines += _checked(again)
    return [*lines, ""]


def _checked(again: EvalResult) -> list[str]:
    known = again.provenance
    lines = [
        f"* Checked on {len(again.trials)} fresh inputs in a fresh process, protocol"
        f" {known.protocol}, precision {known.precision}, on {known.device}, jail {known.jail}."
    ]
    if again.reference_ms is not None and again.kernel_ms is not None:
        lines.append(
            f"* Reference {again.reference_ms:.4g} ms, candidate {again.kernel_ms:.4g} ms."
        )
    if again.profile is not None and again.profile.sentence:
        lines.append(f"* {again.profile.sentence}.")
    lines += [f"* Remark: {finding.message}" for finding in again.findings]
    lines += [f"* Not measured: {name} ({why})" for name, why in again.not_measured.items()]
    return lines


def _tried(found: Found) -> list[str]:
    lines = []
    for episode in found.episodes:
        steps = [
            outcome_of(turn) + (f" {turn.speedup:.2f}x" if turn.speedup is not None else "")
            for turn in episode.turns
        ]
        lines.append(f"* attempt {episode.sample + 1}: {' > '.join(steps) or episode.stopped}")
    return lines


def _cost(found: Found) -> list[str]:
    turns = [turn for episode in found.episodes for turn in episode.turns]
    outcomes = Counter(outcome_of(turn) for turn in turns)
    prices = [turn.generation.cost_usd for turn in turns]
    tokens = sum(t.generation.prompt_tokens + t.generation.completion_tokens for t in turns)
    said = ", ".join(f"{count} {name}" for name, count in outcomes.most_common())
    lines = [f"* {len(turns)} candidates: {said}", f"* {tokens:,} tokens"]
    known = [price for price in prices if price is not None]
    if known and len(known) == len(prices):
        lines.append(f"* {sum(known):.4f} US dollars")
    return lines
