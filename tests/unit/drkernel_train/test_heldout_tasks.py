"""The held-out tasks of the miniature are the ones that were written down before any run."""

import hashlib
import re
from pathlib import Path

import pytest

from drkernel.config import load
from drkernel.evaluate.settings import EvalSettings
from drkernel.rollout.tasks import load_tasks
from drkernel.scale.settings import ScaleSettings
from kernelgym.tasks.synth.record import read_records
from kernelgym.tasks.synth.split import combination, split_of

ROOT = Path(__file__).parents[3]
FILE = ROOT / "data" / "heldout" / "test.jsonl"


def test_the_file_is_the_documented_one():
    documented = re.findall(
        r"([0-9a-f]{64})  data/heldout/test", (ROOT / "docs/reproduction.md").read_text()
    )
    assert documented == [hashlib.sha256(FILE.read_bytes()).hexdigest()]


def test_no_task_has_a_combination_of_operators_that_may_be_trained_on():
    records = list(read_records(FILE))
    assert len(records) == 271
    assert {split_of(record.operators) for record in records} == {"test"}
    assert len({combination(record.operators) for record in records}) > 200


@pytest.mark.parametrize(
    ("kind", "recipe", "count"), [(EvalSettings, "eval", 200), (ScaleSettings, "scale", 50)]
)
def test_the_recipes_take_the_documented_number(monkeypatch, kind, recipe, count):
    monkeypatch.chdir(ROOT)
    found = load_tasks(load(kind, [ROOT / "configs" / recipe / "miniature.toml"]).tasks)
    assert len({task.content_hash for task in found}) == count
