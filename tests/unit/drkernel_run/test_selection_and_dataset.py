"""Which trajectories become rows, and what a row holds."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from made import episode, task, turn, verdict

from drkernel.collect.card import card, statistics_of
from drkernel.collect.dataset import COLUMNS, row_of, write_parquet
from drkernel.collect.selection import best_turn, select
from drkernel.collect.settings import CollectSettings, SelectionSettings
from drkernel.types import Episode


def _played(*marks: float | str, sample: int = 0, **more: str) -> Episode:
    """Numbers are correct and so fast, words are outcomes; ``lost`` is a missing turn."""
    turns = []
    for index, mark in enumerate(marks):
        code = f"# {sample} {index} {mark}"
        if mark == "lost":
            turns.append(turn(index, status="infrastructure", tokens=5, code=code))
        elif isinstance(mark, str):
            turns.append(turn(index, verdict(mark), code=code))
        else:
            turns.append(turn(index, verdict(speedup=mark), code=code, reward=1.0 + mark))
    return episode(turns, sample=sample, **more)


@pytest.mark.parametrize(
    ("marks", "settings", "reason"),
    [
        ((1.1, "mismatch", 1.4), {}, ""),
        (("mismatch", "crash", "mismatch"), {}, "never correct"),
        (("mismatch", "crash", "mismatch"), {"best": "any"}, ""),
        ((1.1, 1.2), {}, "incomplete"),
        ((1.1, 1.2), {"complete": False}, ""),
        ((1.1, "lost", 1.2), {}, "incomplete"),
        (("hack", 1.1, 1.2), {}, "hack"),
        (("hack", 1.1, 1.2), {"hacks": "recovered"}, ""),
        ((1.1, 1.2, "hack"), {"hacks": "recovered"}, "hack"),
        ((1.1, 1.2, "hack"), {"hacks": "allow"}, ""),
        ((1.1, 1.2, "mismatch"), {"last": "correct"}, "last turn not correct"),
        ((1.1, 1.5, 1.2), {"last": "best"}, "last turn not the best"),
        ((1.1, 1.5, 1.2), {"min_speedup": 1.6}, "too slow"),
        ((1.1, 1.05, 1.0), {"improves": True}, "does not improve"),
    ],
)
def test_rules(marks: tuple[float | str, ...], settings: dict[str, object], reason: str) -> None:
    (choice,) = select([_played(*marks)], SelectionSettings.model_validate(settings), turns=3)
    assert choice.reason == reason


def test_the_best_of_each_task_and_no_code_twice() -> None:
    played = [_played(1.0, 1.0 + n / 10, 1.0, sample=n) for n in range(4)]
    chosen = select(played, SelectionSettings(per_task=2), turns=3)
    assert [choice.kept for choice in chosen] == [False, False, True, True]
    same = [played[1], played[1].model_copy(update={"id": "one#9", "sample": 9})]
    assert [c.kept for c in select(same, SelectionSettings(), turns=3)] == [True, False]


def test_the_best_turn_is_the_fastest_or_else_the_latest() -> None:
    found = best_turn(_played(1.5, 2.0, "mismatch", 2.0))
    assert found is not None
    assert found.index == 1
    untimed = episode([turn(0, verdict(), reward=1.0), turn(1, verdict(), reward=1.0)])
    found = best_turn(untimed)
    assert found is not None
    assert found.index == 1
    assert best_turn(_played("mismatch")) is None


def test_rows_have_the_published_columns(tmp_path: Path) -> None:
    one = _played(1.1, "mismatch", 1.4)
    problem = task("one", repo_name="some/repo", module_name="Net")
    row = row_of(one, problem, backend="triton", ended_at="2026-01-01T00:00:00+00:00")
    assert tuple(row) == COLUMNS
    assert [m["role"] for m in row["messages"]] == ["user", "assistant"] * 3
    assert row["messages"][2]["content"] == "ask 1"
    assert (row["best_round"], row["final_speedup"], row["num_rounds"]) == (3, 1.4, 3)
    assert (row["repo_name"], row["module_name"]) == ("some/repo", "Net")
    assert write_parquet([row], tmp_path / "rows.parquet") == 1
    table = pq.read_table(tmp_path / "rows.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert table.to_pylist() == [row]
    assert str(table.schema.field("uuid").type) == "int64"


def test_the_card_counts_what_was_played_and_kept() -> None:
    played = [_played(1.1, "mismatch", 1.4, sample=0), _played("hack", 1.1, 1.2, sample=1)]
    choices = select(played, SelectionSettings(), turns=3)
    numbers = statistics_of(choices, {"one": task("one", category="softmax")})
    assert (numbers["trajectories"], numbers["played"]) == (1, 2)
    assert numbers["left_out"] == {"hack": 1}
    assert numbers["outcomes_by_turn"][0] == {"correct": 1, "hack": 1}
    assert numbers["best_round"] == {3: 1}
    text = card(numbers, CollectSettings(), "0" * 64)
    assert "1 trajectories on 1 tasks" in text
    assert "say nothing about any model" in " ".join(text.split())
