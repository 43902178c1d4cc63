"""Numbers of an evaluation equal the algorithms' on arrays made by hand; what is missing fails."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
from made import ObedientGym, episode, task, turn, verdict

from drkernel.algo import clustered_interval, fast_at_p, fast_samples
from drkernel.evaluate.arrays import Arrays, arrays_of, levels_of
from drkernel.evaluate.baselines import baseline_rows
from drkernel.evaluate.metrics import cost_of, rows_of
from drkernel.evaluate.rejudge import Again, judge_again, read_verdicts
from drkernel.evaluate.summary import NOT_TIMED, summarise, tables_of
from drkernel.report.tables import Table
from kernelgym.schema import Submission


def _arrays(table: list[list[list[float | str | None]]]) -> Arrays:
    """[P][K][T]: numbers are speedups, words outcomes, None a turn lost to context."""
    episodes = []
    for p, row in enumerate(table):
        for k, marks in enumerate(row):
            turns = []
            for t, mark in enumerate(marks):
                if mark is None:
                    turns.append(turn(t, status="context", tokens=0, code=None))
                elif isinstance(mark, str):
                    turns.append(turn(t, verdict(mark)))
                else:
                    turns.append(turn(t, verdict(speedup=mark, coverage=0.5), reward=mark))
            episodes.append(episode(turns, name=f"t{p}", sample=k))
    names = [f"t{p}" for p in range(len(table))]
    return arrays_of(episodes, names, samples=len(table[0]), turns=3)


TABLE: list[list[list[float | str | None]]] = [
    [[1.3, 0.9, 2.0], ["mismatch", 1.2, None], ["hack", "hack", "mismatch"]],
    [["crash", None], [1.0, 1.0, 1.0], [1.25, "mismatch", 1.1]],
]


def test_a_turn_that_was_lost_is_a_failure_in_the_denominator() -> None:
    arrays = _arrays(TABLE)
    speedups = [
        [[1.3, 0.9, 2.0], [0, 1.2, None], [0, 0, 0]],
        [[0, None, None], [1.0, 1.0, 1.0], [1.25, 0, 1.1]],
    ]
    expected = np.array([[[np.nan if v is None else v for v in t] for t in k] for k in speedups])
    np.testing.assert_array_equal(arrays.speedups, expected)
    rows = {(r.metric, r.group, r.turn): r for r in rows_of(arrays, {})}
    assert rows["fast@1.2", "all", "turn 3"].value == fast_at_p(expected, 1.2, turn=2) == 1 / 6
    assert rows["fast@1.2", "all", "best of 3"].value == fast_at_p(expected, 1.2, best_of=3)
    assert rows["correct", "all", "turn 2"].value == 3 / 6
    low, high = clustered_interval(fast_samples(expected, 1.2, best_of=3))
    found = rows["fast@1.2", "all", "best of 3"]
    assert (found.low, found.high, found.samples) == (low, high, 6)
    assert rows["hack ratio", "all", "turn 1"].value == 1 / 6
    assert rows["coverage", "all", "turn 1"].value == 0.5
    assert rows["missing", "all", "turn 2"].value == pytest.approx(1 / 6)
    assert rows["missing", "all", "turn 3"].value == pytest.approx(2 / 6)


def test_groups_are_by_level_and_cover_their_own_tasks() -> None:
    tasks = {"t0": task("t0", level="2"), "t1": task("t1", level="1")}
    groups = levels_of(tasks)
    assert groups == {"level 1": ["t1"], "level 2": ["t0"]}
    rows = {(r.metric, r.group, r.turn): r for r in rows_of(_arrays(TABLE), groups)}
    assert rows["correct", "level 2", "turn 3"].value == 1 / 3
    assert rows["correct", "level 1", "turn 3"].problems == 1


def test_without_timings_fast_is_not_measured_and_said_so() -> None:
    plain = [[["mismatch", "mismatch", "mismatch"]]]
    arrays = _arrays(plain)  # type: ignore[arg-type]
    summary = summarise(
        arrays, {}, policy="teacher:triton", digest="0", protocol="standard", baseline="eager",
        thresholds=(1.0,),
    )  # fmt: skip
    assert all(row.value is None for row in summary.rows if row.metric == "fast@1")
    first = tables_of(summary)[0]
    assert NOT_TIMED in first.note
    moves = next(table for table in tables_of(summary) if table.title.startswith("Moves"))
    assert moves.rows[0] == ("turn 1 to 2", "0.000", "0.000")
    assert "script" in first.note
    assert {row[0] for row in first.rows} == {"correct", "hack ratio", "missing"}


def _first_note(*ends: str, samples: int) -> str:
    played = [episode([turn(0, verdict())], sample=k, stopped=end) for k, end in enumerate(ends)]
    summary = summarise(
        arrays_of(played, ["one"], samples=samples, turns=1), {}, policy="p", digest="0",
        protocol="standard", baseline="eager", thresholds=(1.0,),
    )  # fmt: skip
    return tables_of(summary)[0].note


def test_a_run_that_is_not_over_says_so() -> None:
    note = _first_note("turns", "policy_error", "context", samples=4)
    assert "2 samples are not finished" in note  # the second, and a fourth that was not begun
    assert "not finished" not in _first_note("turns", "context", samples=2)


def test_cost_counts_tokens_and_gives_no_sum_of_unknown_prices() -> None:
    cost = cost_of(_arrays(TABLE))
    assert cost["episodes"] == 6
    assert cost["turns"] == 17
    assert cost["completion_tokens"] == 150
    assert cost["cost_usd"] is None


def test_what_was_solved_early_is_not_lost() -> None:
    solved = episode([turn(0, verdict("crash")), turn(1, verdict(speedup=2.5))], stopped="solved")
    arrays = arrays_of([solved], ["one"], samples=1, turns=4)
    assert arrays.speedups[0, 0].tolist() == [0.0, 2.5, 2.5, 2.5]
    assert np.isnan(arrays.table(lambda one: 1.0)[0, 0, 2:]).all()


def test_an_empty_sample_is_missing() -> None:
    arrays = arrays_of([episode([turn(0, verdict())], name="a")], ["a", "b"], samples=2, turns=1)
    assert np.isnan(arrays.correct).sum() == 3
    rows = {r.metric: r for r in rows_of(arrays, {})}
    assert rows["correct"].value == 0.25


async def test_candidates_are_judged_again_once(tmp_path: Path) -> None:
    gym, path = ObedientGym(), tmp_path / "rejudged.jsonl"
    work = [
        Again(f"e{n}", 0, "verify", Submission(task=task(), source=f"# {n}.5")) for n in range(3)
    ]
    first = await judge_again(gym, work[:2], path)
    path.write_bytes(path.read_bytes()[:-20])
    again = await judge_again(gym, work, path)
    assert sorted(gym.asked.values()) == [1, 1, 2]
    assert {key: v.speedup for key, v in again.items()} == {
        ("e0", 0, "verify"): 0.5, ("e1", 0, "verify"): 1.5, ("e2", 0, "verify"): 2.5,
    }  # fmt: skip
    assert set(read_verdicts(path)) == set(again)
    assert len(first) == 2


def test_further_references_have_rows_of_their_own() -> None:
    arrays = _arrays(TABLE)
    verdicts = {
        ("t0#0", 2, "baseline torch_compile"): verdict(speedup=1.1),
        ("t1#1", 2, "baseline torch_compile"): verdict("mismatch"),
        ("t1#2", 0, "baseline torch_compile"): verdict(speedup=1.3),
    }
    rows = {
        (row.metric, row.turn): row.value
        for row in baseline_rows(arrays, verdicts, "torch_compile", (1.0, 1.2))
    }
    # The last candidate of t1#2 was not timed again: it is a failure, not left out.
    assert rows["fast@1 vs torch_compile", "turn 3"] == 1 / 6
    assert rows["fast@1 vs torch_compile", "best of 3"] == 2 / 6
    assert rows["fast@1.2 vs torch_compile", "best of 3"] == 1 / 6
    assert baseline_rows(arrays, {}, "torch_compile", (1.0,)) == []


def test_tables_align_and_escape() -> None:
    table = Table("T", ("", "a|b"), (("row", "1"), ("longer row", "22")), "note")
    assert table.text().splitlines()[2:] == [
        "            a|b",
        "row           1",
        "longer row   22",
        "note",
    ]
    assert "a\\|b" in table.markdown()
    assert list(csv.reader(io.StringIO(table.csv()))) == [
        ["", "a|b"],
        ["row", "1"],
        ["longer row", "22"],
    ]
    assert not math.isnan(table.width)
