"""The command line: light, with errors that say what to do, and reports from what is stored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made import ObedientGym, answer, task

from drkernel.cli.main import main
from drkernel.evaluate.running import write_report
from drkernel.evaluate.settings import EvalSettings
from drkernel.policy import ScriptedPolicy
from drkernel.rollout.directory import RunDirectory
from drkernel.rollout.playing import play_all
from drkernel.rollout.settings import EpisodeSettings

VERBS = ("eval", "inspect", "compare", "report")
"""Those whose help is printed; with all their keys, the help of the others takes a second each."""
OTHERS = ("collect", "nano", "optimize", "scale", "sft", "train")


def test_help_imports_no_torch() -> None:
    code = (
        "import importlib, sys; from drkernel.cli.main import main\n"
        f"for verb in {OTHERS!r}: importlib.import_module(f'drkernel.cli.{{verb}}')\n"
        f"codes = [main([*verb.split(), '--help']) for verb in {('', *VERBS)!r}]\n"
        "heavy = {'torch', 'transformers', 'triton', 'pyarrow', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'{codes} {heavy}' if any(codes) or heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f"Usage: drkernel {verb}" in done.stdout for verb in VERBS)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["evl"], "eval"),
        (["eval", "--episode.turn", "2"], "--episode.turns"),
        (["eval"], "no policy is named"),
        (["eval", "--policy.name", "teacher", "--tasks.source", "bultin"], "no tasks called"),
        (["eval", "--policy.name", "teacher", "--episode.judging.backend", "cuda"], "no cuda"),
        (["collect", "--episode.turns", "0"], "turns"),
        (["inspect", "nowhere"], "holds no run (no such folder)"),
        (["report", "nowhere"], "holds no run"),
        (["compare", "nowhere"], "holds no run"),
        (["optimize", "nowhere.py", "--policy.name", "teacher"], "no such file"),
    ],
)
def test_usage_errors_exit_with_two(
    tokens: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(tokens) == 2
    assert said in capsys.readouterr().err


def test_a_gym_that_is_not_there_is_said_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--policy.name", "teacher", "--gym.server", "http://127.0.0.1:9"]
    out = ["--out", str(tmp_path / "run"), "--gym.patience-s", "0.1"]
    assert main(["eval", *given, *out]) == 3
    said = capsys.readouterr().err
    assert "http://127.0.0.1:9: the gym does not answer" in said and "kernelgym up" in said
    assert not (tmp_path / "run" / "episodes.jsonl").exists()


def test_values_that_are_refused_are_named_by_their_flags(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["eval", "--samples", "0", "--episode.budget.context-tokens", "x"]) == 2
    said = capsys.readouterr().err
    assert "--samples: input should be greater than or equal to 1, not '0'" in said
    assert "--episode.budget.context-tokens: input should be a valid integer" in said
    assert "pydantic" not in said


def test_a_path_that_is_no_run_names_those_near_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for verb in ("report", "inspect", "compare"):
        assert main([verb, "nowhere"]) == 2
        assert "drkernel eval --policy.name teacher --out RUN" in capsys.readouterr().err
    for name, kind in (("one", "eval"), ("two", "scale"), ("three", "eval")):
        RunDirectory(tmp_path / "runs" / name, EvalSettings(), kind, resume=False)
    for verb in ("report", "inspect"):
        assert main([verb, "runs/noe"]) == 2
        said = capsys.readouterr().err
        assert all(f"runs/{name}" in said for name in ("one", "two", "three"))
        assert f"try: drkernel {verb} runs/" in said
    assert main(["compare", "runs"]) == 2
    said = capsys.readouterr().err
    assert "runs/two" not in said and "drkernel compare runs/" in said
    assert main(["inspect", "runs/one"]) == 2
    assert "no episodes yet" in capsys.readouterr().err
    assert main(["compare", "runs/two"]) == 2
    assert "drkernel report runs/two" in capsys.readouterr().err


def test_a_recipe_with_a_misspelt_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("[episode]\ntunrs = 3\n")
    assert main(["eval", "-c", str(recipe), "--policy.name", "teacher"]) == 2
    said = capsys.readouterr().err
    assert "mine.toml: unknown key 'episode.tunrs'; did you mean episode.turns?" in said


def test_the_merged_configuration_can_be_seen_and_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", "--episode.turns", "4", "--show-config"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)["episode"]["turns"] == 4
    assert json.loads(shown)["episode"]["variant"] == "distill"
    (tmp_path / "config.json").write_text(shown)
    assert main(["collect", "-c", str(tmp_path / "config.json"), "--show-config"]) == 0
    assert capsys.readouterr().out == shown


async def _run(path: Path, answers: list[str], **changes: object) -> None:
    settings = EvalSettings(
        episode=EpisodeSettings(turns=2, variant="compact"), samples=2
    ).model_copy(update=changes)
    tasks = [task(f"t{n}", level=str(n % 2 + 1)) for n in range(4)]
    run = RunDirectory(path, settings, "eval", resume=False)
    run.store_tasks(tasks)
    policy = ScriptedPolicy(answers)
    episodes = await play_all(
        tasks, policy, ObedientGym(), settings.episode, log_path=run.episodes, samples=2,
        concurrency=4, config_digest=run.digest, quiet=True,
    )  # fmt: skip
    write_report(path, settings, episodes, {t.name: t for t in tasks}, policy.name, run.digest)


async def test_reports_inspection_and_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow, fast = tmp_path / "slow", tmp_path / "fast"
    await _run(slow, [answer("# mismatch"), answer("# 1.1")])
    await _run(fast, [answer("# hack"), answer("# 1.6")])
    before = (fast / "table.csv").read_text()
    assert "fast@1.5,all,turn 2,1.0" in before
    (fast / "report.html").unlink()
    assert main(["report", str(fast), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == 4
    assert (fast / "table.csv").read_text() == before
    page = (fast / "report.html").read_text()
    assert page.count("<svg") == 4
    assert "http://" not in page.replace("http://www.w3.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "")
    for name in ("by_turn", "outcomes", "fastp_curve", "lazy"):
        assert {p.suffix for p in (fast / "figures").glob(f"{name}.*")} == {".png", ".svg", ".csv"}
    capsys.readouterr()
    assert main(["compare", str(slow), str(fast)]) == 0
    said = capsys.readouterr().out
    assert "fast@1.5, last turn" in said
    assert "1.000 [1.000, 1.000]" in said
    assert main(["compare", str(slow), str(fast), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["tasks"] == 4
    assert {one["metric"]: one["second"] for one in told["metrics"]}["fast@1.5"] == 1.0
    assert main(["inspect", str(fast), "--outcome", "hack"]) == 0
    assert "t0#1" in capsys.readouterr().out
    assert main(["inspect", str(fast), "t0#0", "--prompts"]) == 0
    shown = capsys.readouterr().out
    assert "-# hack\n+# 1.6" in shown
    assert "speedup 1.60x" in shown
    assert main(["inspect", str(fast), "t0#00"]) == 2
    assert "did you mean t0#0" in capsys.readouterr().err
    assert main(["inspect", str(fast), "--outcome", "hakc"]) == 2
    assert "did you mean hack" in capsys.readouterr().err
    assert main(["inspect", str(fast), "t0#0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "t0#0"


def test_a_run_is_continued_only_when_asked_and_under_the_same_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RunDirectory(tmp_path / "run", EvalSettings(), "eval", resume=False)
    common = ["eval", "--policy.name", "teacher", "--out", str(tmp_path / "run")]
    assert main(common) == 2
    assert "another configuration" in capsys.readouterr().err
    RunDirectory(tmp_path / "same", EvalSettings(), "eval", resume=False)
    with pytest.raises(Exception, match="holds this run already"):
        RunDirectory(tmp_path / "same", EvalSettings(), "eval", resume=False)
    RunDirectory(tmp_path / "same", EvalSettings(concurrency=3), "eval", resume=True)
    assert len(json.loads((tmp_path / "same" / "env.json").read_text())) == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(Exception, match="holds no run"):
        RunDirectory(tmp_path / "other", EvalSettings(), "eval", resume=False)
