"""Scaling: arms from common starts, budgets, gains, choosing without an oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from made import episode, task, turn, verdict

from drkernel.cli.main import main
from drkernel.config import load
from drkernel.evaluate.arrays import Arrays, arrays_of
from drkernel.rollout.log import read_log
from drkernel.rollout.settings import JudgingSettings
from drkernel.scale.arms import arm_settings, begin_with, grouped, samples_of, start_settings
from drkernel.scale.budgets import by_evaluations, by_tokens, token_budgets, tokens_of
from drkernel.scale.choosing import (
    as_reference,
    choose,
    closed_gap,
    comparisons,
    hubs_of,
    known_of,
)
from drkernel.scale.gains import gains_of
from drkernel.scale.numbers import summarise
from drkernel.scale.settings import ChoosingSettings, ScaleSettings
from drkernel.scale.summary import NOT_COMPARED, tables_of
from drkernel.types import Episode, Turn
from kernelgym.errors import UsageError


def _turns(*marks: float | str) -> list[Turn]:
    return [
        turn(
            index,
            verdict(mark) if isinstance(mark, str) else verdict(speedup=mark, coverage=mark / 4),
            code=f"# {index}\nclass ModelNew: ...",
            reward=0.0 if isinstance(mark, str) else 1.0 + mark,
        )
        for index, mark in enumerate(marks)
    ]


def _arrays(*sequences: tuple[float | str, ...]) -> Arrays:
    episodes = [episode(_turns(*marks), sample=k) for k, marks in enumerate(sequences)]
    return arrays_of(episodes, ["one"], samples=len(sequences), turns=len(sequences[0]))


def test_the_defaults_make_fourteen_turns() -> None:
    settings = ScaleSettings()
    assert settings.turns == 14
    assert start_settings(settings).turns == 5
    assert arm_settings(settings, "vanilla").context.rule == "all"
    assert arm_settings(settings, "vanilla").context.overflow == "drop_oldest"
    top = arm_settings(settings, "top")
    assert (top.turns, top.context.rule, top.context.w, top.context.max_turns) == (14, "top", 4, 5)
    assert arm_settings(settings, "parallel").turns == 1
    assert samples_of(settings, "parallel") == 14
    with pytest.raises(UsageError, match="w must be below"):
        load(ScaleSettings, flags=ScaleSettings(max_turns=4, w=4))
    with pytest.raises(UsageError, match="not among the arms"):
        load(
            ScaleSettings,
            flags=ScaleSettings(choosing=ChoosingSettings(enabled=True, arm="window")),
        )


def test_flags_are_judged_together_with_the_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "long.toml").write_text("max_turns = 9\n")
    common = ["scale", "-c", str(tmp_path / "long.toml"), "--show-config", "--w"]
    assert main([*common, "7"]) == 0
    assert '"w": 7' in capsys.readouterr().out
    assert main([*common, "9"]) == 2
    assert "w must be below max_turns = 9" in capsys.readouterr().err


def test_arms_begin_with_the_common_turns_once(tmp_path: Path) -> None:
    path = tmp_path / "arms" / "top" / "episodes.jsonl"
    start = episode(_turns("mismatch", 1.1))
    lost = episode([*_turns(1.0), turn(1, status="policy_error", tokens=0)], sample=1)
    for _ in range(2):  # as after a crash
        begin_with(path, [start, lost])
    stored = read_log(path)
    assert [len(stored[name].turns) for name in ("one#0", "one#1")] == [2, 1]
    assert len(path.read_text().splitlines()) == 3
    assert stored["one#0"].turns[1] == start.turns[1]
    assert not stored["one#0"].finished


def test_parallel_samples_become_sequences() -> None:
    samples = [episode(_turns(1.0 + n), sample=n) for n in range(5)]
    samples[3] = episode([], sample=3, stopped="context")
    sequences = grouped(samples, 3)
    assert [one.id for one in sequences] == ["one#0", "one#1"]
    assert [t.index for t in sequences[1].turns] == [1]
    assert [t.speedup for t in sequences[0].turns] == [1.0, 2.0, 3.0]


def test_budgets_count_evaluations_and_tokens() -> None:
    arrays = _arrays(("mismatch", 1.0, 1.5), (1.3, "mismatch", 1.0))
    curve = by_evaluations("top", arrays, 1.2)
    assert curve.values == (0.5, 0.5, 1.0)
    # Turns cost 110, 210 and 310 tokens.
    assert [tokens_of(one) for one in _turns(1.0, 1.0, 1.0)] == [110, 210, 310]
    assert by_tokens("top", arrays, 1.2, [100, 110, 629, 630]).values == (0.0, 0.5, 0.5, 1.0)
    budgets = token_budgets([arrays])
    assert budgets[-1] == 630
    assert budgets == sorted(budgets)


def test_gains_by_the_state_of_the_first_turn() -> None:
    arrays = _arrays(
        ("mismatch", "mismatch"), ("mismatch", 1.5), (1.0, 1.02), (1.0, 2.0), (1.3, 1.0)
    )
    gains = {gain.state: gain for gain in gains_of(arrays)}
    assert (gains["wrong"].sequences, gains["wrong"].correct) == (2, 0.5)
    assert gains["correct, not fast"].improved == 0.5
    assert gains["correct, not fast"].first_speedup == 1.0
    assert gains["fast"].improved == 0.0
    assert gains["fast"].best_speedup == 1.3


def _sequence() -> Episode:
    return episode(_turns(1.1, "mismatch", 2.0, 1.2, "mismatch"))


def test_candidates_are_compared_with_the_latest_distinct_ones() -> None:
    sequence = _sequence()
    same = sequence.turns[4].model_copy(update={"extraction": sequence.turns[3].extraction})
    sequence = sequence.model_copy(update={"turns": (*sequence.turns[:4], same)})
    assert [hub.index for hub in hubs_of(sequence, 2)] == [4, 2]
    work = comparisons(sequence, task(), JudgingSettings(), 2)
    assert [one.key[1:] for one in work if one.purpose == "agree 2"] == [
        (index, "agree 2") for index in (0, 1, 3, 4)
    ]
    reference = as_reference(sequence.turns[2], task())
    assert reference is not None
    assert reference.entry_point == "ModelNew"
    assert "def get_inputs" in reference.reference
    assert "class Model(" not in reference.reference


def test_rules_choose_by_agreement_runtime_and_coverage() -> None:
    sequence = _sequence()
    votes = {  # turn: of hub 4, of hub 3
        0: ("mismatch", 3.0), 1: (0.5, "mismatch"), 2: ("mismatch", 1.0), 3: ("mismatch", None),
        4: (None, "mismatch"),
    }  # fmt: skip
    verdicts = {}
    for index, pair in votes.items():
        for hub, mark in zip((4, 3), pair, strict=True):
            if mark is not None:
                verdicts["one#0", index, f"agree {hub}"] = (
                    verdict(mark) if isinstance(mark, str)
                    else verdict(kernel_ms=mark, coverage=1 / (1 + mark))
                )  # fmt: skip
    known = known_of(sequence, verdicts, 2)
    assert [one.votes for one in known] == [1, 1, 1, 0, 0]
    picks = {rule: choose(rule, known) for rule in ("last", "agreement", "runtime", "coverage")}
    assert {rule: pick.index for rule, pick in picks.items() if pick} == {
        "last": 4, "agreement": 2, "runtime": 1, "coverage": 1,
    }  # fmt: skip
    verdicts["one#0", 2, "agree 4"] = verdict(kernel_ms=1.0)
    pick = choose("combined", known_of(sequence, verdicts, 2))
    assert pick is not None
    assert pick.index == 2
    assert closed_gap(0.5, 0.25, 0.75) == 0.5
    assert closed_gap(0.5, 0.5, 0.5) is None


def test_the_second_verdict_is_the_figure_of_record() -> None:
    settings = ScaleSettings(
        max_turns=2, iterations=2, w=1, samples=2, arms=("top",),
        choosing=ChoosingSettings(enabled=True, arm="top"),
    )  # fmt: skip
    sequences = [episode(_turns(1.0, 3.0, 1.0)), episode(_turns(1.3, "mismatch", 1.0), sample=1)]
    verdicts = {
        ("one#0", 1, "verify"): verdict("mismatch"),
        ("one#1", 0, "verify"): verdict(speedup=1.1),
    }
    summary = summarise(settings, {"top": sequences}, {"top": verdicts}, ["one"], "digest")
    best = summary.find("top", "fast@1.2", "best of 3")
    verified = summary.find("top", "fast@1.2", "verified")
    assert best is not None
    assert best.value == 1.0
    assert verified is not None
    assert verified.value == 0.0
    slower = summary.find("top", "fast@1", "verified")
    assert slower is not None
    assert slower.value == 0.5
    rules = {choice.rule: choice for choice in summary.choices}
    assert rules["last"].value == 0.0
    assert rules["best (oracle)"].value == 1.0
    text = "\n".join(table.text() for table in tables_of(summary))
    assert NOT_COMPARED in text
    verdicts["one#0", 1, "agree 2"] = verdict("mismatch")
    summary = summarise(settings, {"top": sequences}, {"top": verdicts}, ["one"], "digest")
    text = "\n".join(table.text() for table in tables_of(summary))
    assert summary.compared == 1 and NOT_COMPARED not in text
    assert "fast@1.2, verified" in text
    assert "Choosing without an oracle" in text
