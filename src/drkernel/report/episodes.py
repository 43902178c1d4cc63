"""Episodes for reading: one line each, or one turn by turn with what changed in the code."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from drkernel.report.tables import Table
from drkernel.types import Episode, Turn

_CODE = re.compile(r"^`{3,}[^\n]*\n.*?^`{3,}\s*$", re.MULTILINE | re.DOTALL)


def outcome_of(turn: Turn) -> str:
    """The verdict, or what became of the turn without one."""
    return turn.result.outcome.value if turn.result is not None else turn.status


def episode_list(episodes: Sequence[Episode]) -> Table:
    """One line an episode."""
    rows = []
    for episode in episodes:
        speedups = [turn.speedup for turn in episode.turns if turn.speedup is not None]
        rows.append(
            (
                episode.id,
                " > ".join(outcome_of(turn) for turn in episode.turns),
                f"{max(speedups):.2f}x" if speedups else "-",
                f"{max((turn.reward for turn in episode.turns), default=0.0):.2f}",
                episode.stopped,
            )
        )
    head = ("episode", "turns", "best speedup", "best reward", "stopped")
    return Table("", head, tuple(rows))


def episode_text(
    episode: Episode,
    *,
    only: int | None = None,
    prompts: bool = False,
    whole: bool = False,
    remarks: Mapping[int, str] | None = None,
) -> str:
    """An episode turn by turn.

    Args:
        episode: the episode.
        only: 0-based turn; None shows all.
        prompts: show what each turn was newly told.
        whole: show whole sources rather than what changed.
        remarks: a further line for some of the turns, by 0-based index.
    """
    parts = [f"{episode.id}  policy {episode.policy}  stopped: {episode.stopped}"]
    before = ""
    for turn in episode.turns:
        code = turn.extraction.code or ""
        if only is None or turn.index == only:
            text = _turn_text(turn, "" if whole else before, prompts=prompts)
            remark = (remarks or {}).get(turn.index)
            parts.append(f"{text}\n--- in training: {remark}" if remark else text)
        before = code or before
    return "\n\n".join(parts) + "\n"


def _turn_text(turn: Turn, before: str, *, prompts: bool) -> str:
    lines = [f"=== turn {turn.index + 1}: {outcome_of(turn)}  {_numbers(turn)}"]
    if prompts and turn.prompt:
        new = turn.prompt if turn.index == 0 else turn.prompt[-1:]
        for message in new:
            lines.append(f"--- {message.role}\n{message.content.rstrip()}")
    if turn.generation.reasoning:
        lines.append(f"--- reasoning\n{turn.generation.reasoning.rstrip()}")
    words = _CODE.sub("[code]", turn.generation.text).strip()
    if words:
        lines.append(f"--- answer\n{words}")
    if turn.generation.error:
        lines.append(f"--- error\n{turn.generation.error}")
    lines.append(_code_text(turn, before))
    if turn.feedback:
        lines.append(f"--- feedback\n{turn.feedback.rstrip()}")
    return "\n".join(line for line in lines if line)


def _code_text(turn: Turn, before: str) -> str:
    code = turn.extraction.code
    if code is None:
        return f"--- no code ({turn.extraction.how}): {turn.extraction.note}".rstrip(": ")
    if not before:
        return f"--- code\n{code.rstrip()}"
    if code == before:
        return "--- code: unchanged"
    changed = difflib.unified_diff(
        before.splitlines(), code.splitlines(), "turn before", f"turn {turn.index + 1}", lineterm=""
    )
    return "--- changes\n" + "\n".join(changed)


def _numbers(turn: Turn) -> str:
    parts = [f"reward {turn.reward:.2f}"]
    if turn.speedup is not None:
        parts.append(f"speedup {turn.speedup:.2f}x")
    if turn.coverage is not None:
        parts.append(f"coverage {100 * turn.coverage:.0f}%")
    parts.append(f"{turn.generation.prompt_tokens}+{turn.generation.completion_tokens} tokens")
    parts += [f"{name} {spent:.1f}s" for name, spent in turn.seconds.items()]
    return "  ".join(parts)
