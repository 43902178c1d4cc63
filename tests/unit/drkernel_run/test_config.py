"""Recipes and flags: laid over each other, checked key by key, digested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from drkernel.config import OPERATIONAL, Section, digest, load
from kernelgym.errors import UsageError


class Inner(Section):
    temperature: float = Field(default=1.0, ge=0)
    stop: tuple[str, ...] = ()


class Recipe(Section):
    turns: int = 3
    concurrency: Annotated[int, OPERATIONAL] = 8
    sampling: Inner = Inner()
    other: Inner | None = None
    hot: Inner = Inner(temperature=2.0, stop=("end",))


def _file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_flags_win_over_later_files_over_earlier_files_over_defaults(tmp_path: Path) -> None:
    first = _file(tmp_path / "a.toml", 'turns = 5\n[sampling]\ntemperature = 0.5\nstop = ["x"]\n')
    second = _file(tmp_path / "b.json", json.dumps({"sampling": {"temperature": 0.7}}))
    flags = Recipe(turns=7)
    config = load(Recipe, [first, second], flags)
    assert config == Recipe(turns=7, sampling=Inner(temperature=0.7, stop=("x",)))
    assert load(Recipe, [first], Recipe(concurrency=2)).turns == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trns = 5", "unknown key 'trns'; did you mean turns?"),
        ("[sampling]\ntemprature = 1", "'sampling.temprature'; did you mean sampling.temperature?"),
        ("[other]\nstopp = 1", "'other.stopp'; did you mean other.stop?"),
        ("temperature = 1", "did you mean sampling.temperature?"),
        ("turns = 'many'", "turns: input should be a valid integer"),
        ("[sampling]\ntemperature = -1", "sampling.temperature: input should be greater than"),
        ("turns = ", "is not a recipe"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = _file(tmp_path / "recipe.toml", text)
    with pytest.raises(UsageError) as caught:
        load(Recipe, [path])
    assert said in str(caught.value)
    assert "recipe.toml" in str(caught.value)


def test_a_flag_leaves_the_other_defaults_of_its_table_alone(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.toml", "[hot]\ntemperature = 3.0\n")
    assert load(Recipe, [path]).hot == Inner(temperature=3.0, stop=("end",))
    flags = Recipe.model_validate({"hot": {"temperature": 4.0}})
    assert load(Recipe, [path], flags).hot == Inner(temperature=4.0, stop=("end",))


def test_what_must_hold_between_keys_is_asked_of_every_table(tmp_path: Path) -> None:
    class Range(Section):
        low: int = 1
        high: int = 2

        def problem(self) -> str:
            return "low is above high" if self.low > self.high else ""

    class Whole(Section):
        range: Range = Range()

    path = _file(tmp_path / "a.toml", "[range]\nhigh = 9\n")
    flags = Whole.model_validate({"range": {"low": 5}})
    assert load(Whole, [path], flags).range == Range(low=5, high=9)
    with pytest.raises(UsageError, match="low is above high"):
        load(Whole, [], flags)


def test_a_missing_recipe_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the recipe"):
        load(Recipe, [tmp_path / "none.toml"])


def test_the_digest_sees_what_decides_results_and_nothing_else() -> None:
    base = digest(Recipe())
    assert digest(Recipe(concurrency=99)) == base
    assert digest(Recipe(turns=4)) != base
    assert digest(Recipe(sampling=Inner(temperature=0.9))) != base
    assert digest(Recipe(other=Inner())) != base


def test_a_stored_configuration_is_a_recipe(tmp_path: Path) -> None:
    config = Recipe(turns=9, sampling=Inner(stop=("a", "b")), other=Inner(temperature=0))
    path = _file(tmp_path / "config.json", config.model_dump_json())
    assert load(Recipe, [path]) == config


CONFIGS = Path(__file__).parents[3] / "configs"


RECIPES = [p for kind in ("collect", "eval", "scale") for p in sorted((CONFIGS / kind).iterdir())]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_shipped_recipes_load_and_change_something(path: Path) -> None:
    from drkernel.collect.settings import CollectSettings
    from drkernel.evaluate.settings import EvalSettings
    from drkernel.scale.settings import ScaleSettings

    kinds = {"collect": CollectSettings, "eval": EvalSettings, "scale": ScaleSettings}
    kind = kinds[path.parent.name]
    assert load(kind, [path]) != kind()
