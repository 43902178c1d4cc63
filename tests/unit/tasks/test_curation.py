"""Curation: filters, weights that follow results, easy-to-hard schedules, mixtures."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.curation import (
    TaskFacts,
    facts_of,
    read_facts,
    select,
    with_results,
    write_facts,
)
from kernelgym.tasks.curation_running import RunningCuration, Weighting
from kernelgym.tasks.curation_schedule import competence, draw_tasks, easy_to_hard, mixture

FACTS = [
    TaskFacts(task=f"t{n}", operators=n, category="norm" if n % 2 else "matmul", source="synth")
    for n in range(1, 9)
]


def names(facts: list[TaskFacts]) -> list[str]:
    return [fact.task for fact in facts]


def test_facts_come_from_labels():
    labels = {"difficulty": "3", "category": "norm", "split": "test"}
    task = Task(name="a", reference="x", origin="synth", labels=labels)
    fact = facts_of(task)
    assert (fact.operators, fact.category, fact.split, fact.source) == (3, "norm", "test", "synth")
    assert facts_of(task.model_copy(update={"labels": {"ops": "a b"}})).operators == 2


def test_static_filters():
    assert names(select(FACTS, operators=range(2, 4))) == ["t2", "t3"]
    assert names(select(FACTS, categories=frozenset({"norm"}))) == ["t1", "t3", "t5", "t7"]
    known = with_results(FACTS, {"t1": (8, 8), "t2": (4, 8), "t3": (0, 8)})
    assert names(select(known, pass_rate=(0.1, 0.9), unknown_pass_rate=False)) == ["t2"]
    assert len(select(known, pass_rate=(0.1, 0.9))) == 6
    few = select(known, pass_rate=(0.0, 1.0), least_attempts=9, unknown_pass_rate=False)
    assert few == []


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_records_survive_a_file(tmp_path: Path, suffix: str):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    facts = [*with_results(FACTS, {"t1": (1, 8)}), replace(FACTS[0], target_share=0.25)]
    path = tmp_path / f"facts.{suffix}"
    write_facts(facts, path)
    assert read_facts(path) == facts
    (tmp_path / "bad.jsonl").write_text('{"nonsense": 1}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="no curation records"):
        read_facts(tmp_path / "bad.jsonl")


def test_what_is_solved_half_of_the_time_weighs_most():
    running = RunningCuration(FACTS)
    assert running.weight("t1") == 1.0
    for _ in range(5):
        running.record("t1", [0.0, 1.0] * 4, [False, True] * 4)
        running.record("t2", [1.0, 1.1] * 4, [True] * 8)
        running.record("t3", [0.0, 0.1] * 4, [False] * 8)
    assert running.weight("t1") == 1.0
    assert running.weight("t2") == pytest.approx(running.weight("t3"))
    assert 0.02 <= running.weight("t2") < 0.3


def test_flat_groups_halve_the_weight_until_rewards_differ_again():
    running = RunningCuration(FACTS, Weighting(fade=0.0))
    running.record("t1", [0.5] * 4, [True, False] * 2)
    running.record("t1", [0.5] * 4, [True, False] * 2)
    assert running.facts["t1"].flat_groups == 2
    assert running.weight("t1") == pytest.approx(0.25)
    assert running.zero_variance_share() == 1.0
    running.record("t1", [0.0, 1.0] * 2, [True, False] * 2)
    assert running.weight("t1") == 1.0
    assert running.zero_variance_share() == 0.0


def test_an_empty_group_changes_nothing_and_lengths_must_agree():
    running = RunningCuration(FACTS)
    assert running.record("t1", [], []) == FACTS[0]
    with pytest.raises(ValueError, match="2 rewards but 1 verdicts"):
        running.record("t1", [0.0, 1.0], [True])


def test_a_small_share_of_run_time_lowers_the_weight():
    running = RunningCuration(FACTS)
    running.record("t1", [], [], target_share=0.15)
    running.record("t2", [], [], target_share=0.9)
    assert running.weight("t1") == pytest.approx(0.5)
    assert running.weight("t2") == 1.0


def test_competence_rises_from_start_to_all():
    shares = [competence(step, 100) for step in range(0, 120, 10)]
    assert shares[0] == pytest.approx(0.2)
    assert shares == sorted(shares)
    assert shares[-1] == shares[-2] == 1.0
    assert competence(5, 0) == 1.0


def test_easy_to_hard_opens_the_hard_ones_last():
    shuffled = [FACTS[n] for n in (5, 1, 7, 0, 3, 6, 2, 4)]
    assert names(easy_to_hard(shuffled, 0, 100, start=0.25)) == ["t1", "t2"]
    assert names(easy_to_hard(shuffled, 100, 100)) == [f"t{n}" for n in range(1, 9)]
    hard = with_results(shuffled, {"t1": (0, 8)})
    assert names(easy_to_hard(hard, 100, 100))[-1] == "t1"
    assert easy_to_hard([], 0, 1) == []


def test_mixtures_add_up():
    assert mixture({"a": 1.0, "b": 1.0, "c": 1.0}, 10) == {"a": 4, "b": 3, "c": 3}
    assert mixture({"a": 0.7, "b": 0.3}, 10) == {"a": 7, "b": 3}
    with pytest.raises(ValueError, match="positive"):
        mixture({"a": 0.0}, 1)


def test_draws_follow_weights_and_repeat_for_a_seed():
    weights = {fact.task: 1.0 for fact in FACTS} | {"t1": 8.0, "t2": 0.0}
    counts: Counter[str] = Counter()
    for step in range(400):
        drawn = draw_tasks(FACTS, 3, seed=1, step=step, weights=weights)
        assert len(set(drawn)) == 3
        assert drawn == draw_tasks(FACTS[::-1], 3, seed=1, step=step, weights=weights)
        counts.update(drawn)
    assert counts["t2"] == 0
    assert counts["t1"] > 1.5 * counts["t3"]
    assert draw_tasks(FACTS, 3, seed=2, step=0) != draw_tasks(FACTS, 3, seed=3, step=0)


def test_draws_keep_shares_and_fill_up():
    others = [replace(fact, task=f"o{fact.operators}", source="other") for fact in FACTS[:2]]
    shares = {"synth": 0.5, "other": 0.5}
    drawn = draw_tasks([*FACTS, *others], 4, seed=1, step=1, shares=shares)
    assert Counter(name[0] for name in drawn) == {"t": 2, "o": 2}
    drawn = draw_tasks([*FACTS, *others], 8, seed=1, step=1, shares=shares)
    assert Counter(name[0] for name in drawn) == {"t": 6, "o": 2}
