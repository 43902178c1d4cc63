"""The search for one module: the second verdict decides, and nothing is written over."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from made import REFERENCE, ObedientGym, answer, verdict

from drkernel.cli.main import main
from drkernel.optimize import searching
from drkernel.optimize.report import report_of, verdict_of
from drkernel.optimize.searching import Found, optimize_into
from drkernel.optimize.settings import OptimizeSettings
from drkernel.policy import ScriptedPolicy
from drkernel.rollout.settings import EpisodeSettings
from kernelgym.errors import ServiceError
from kernelgym.schema import EvalResult, Submission, Task

MODULE = Task(name="mine", reference=REFERENCE)


class Doubting(ObedientGym):
    """Takes back what it said of ``# 9``; a reference is its own equal, or fails."""

    def __init__(self, reference: str = "1.0") -> None:
        super().__init__()
        self._reference = reference

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        if submission.source == submission.task.reference:
            return None if self._reference == "infra" else verdict(self._reference)
        if force and submission.source.startswith("# 9"):
            return verdict("mismatch")
        return await super().evaluate(submission, key=key, force=force)


async def _search(
    path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[str], gym: ObedientGym
) -> Found:
    @contextlib.asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[ObedientGym]:
        yield gym

    monkeypatch.setattr(searching, "open_evaluator", opened)
    monkeypatch.setattr(searching, "open_any_policy", lambda *_: ScriptedPolicy(answers))
    settings = OptimizeSettings(episode=EpisodeSettings(turns=len(answers), variant="compact"))
    return await optimize_into(path, MODULE, settings, resume=False, quiet=True)


async def test_a_winner_must_pass_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [answer("# 1.5 first"), answer("# 9 lucky"), answer("# 1.2 last")]
    found = await _search(tmp_path / "run", monkeypatch, answers, Doubting("correct"))
    assert found.worthwhile
    assert found.winner is not None
    assert found.winner.speedup == 1.5
    assert (tmp_path / "run" / "best.py").read_text() == "# 1.5 first\n"
    text = report_of(found, MODULE, OptimizeSettings(), tmp_path / "fast.py")
    assert "1.500 times as fast" in text
    assert "attempt 1: correct 1.50x > correct 9.00x > correct 1.20x" in text


async def test_what_is_hardly_faster_is_not_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await _search(
        tmp_path / "run", monkeypatch, [answer("# 1.01"), answer("# hack")], Doubting("correct")
    )
    assert not found.worthwhile
    assert "below the 1.05" in verdict_of(found, OptimizeSettings())


@pytest.mark.parametrize("code", ["# crash", "# 9 lucky"])
async def test_nothing_correct_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    found = await _search(tmp_path / "run", monkeypatch, [answer(code)], Doubting("correct"))
    assert found.winner is None
    assert not (tmp_path / "run" / "best.py").exists()


@pytest.mark.parametrize(
    ("reference", "said"),
    [("infra", "cannot be judged"), ("mismatch", "does not agree with itself")],
)
async def test_a_module_that_cannot_be_judged_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, said: str
) -> None:
    gym = Doubting(reference)
    with pytest.raises(ServiceError, match=said):
        await _search(tmp_path / "run", monkeypatch, [answer("# 1.5")], gym)
    assert not gym.asked


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class Net: ...", "defines no class Model"),
        ("class Model: ...", "no get_inputs"),
        ("class Model(", "is not Python"),
    ],
)
def test_what_a_module_lacks_is_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, said: str
) -> None:
    module = tmp_path / "mine.py"
    module.write_text(source + "\n")
    run = ["--run", str(tmp_path / "run")]
    assert main(["optimize", str(module), "--policy.name", "teacher", *run]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert ("--entry-point Net" in shown) == ("Net" in source)
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_there_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "mine.py"
    module.write_text(REFERENCE)
    (tmp_path / "mine_fast.py").write_text("precious")
    assert main(["optimize", str(module), "--policy.name", "teacher"]) == 2
    assert "exists already" in capsys.readouterr().err
