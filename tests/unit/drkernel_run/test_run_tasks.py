"""The tasks of a run, from every kind of source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made import REFERENCE, task

from drkernel.rollout.evaluator import open_evaluator
from drkernel.rollout.settings import GymSettings
from drkernel.rollout.tasks import TaskSettings, load_tasks, tasks_for
from kernelgym.errors import UsageError
from kernelgym.tasks.registry import builtin_tasks
from kernelgym.tasks.synth.compose import compose
from kernelgym.tasks.synth.record import write_records


def _names(*source: str, **settings: object) -> list[str]:
    chosen = TaskSettings.model_validate({"source": source, **settings})
    return [one.name for one in load_tasks(chosen)]


def test_suites_and_single_tasks() -> None:
    assert _names("builtin") == [one.name for one in builtin_tasks()]
    assert _names("builtin:gpu", limit=1) == [f"{builtin_tasks()[0].name}:gpu"]
    assert _names("builtin/softmax", "builtin/softmax:gpu") == [
        "builtin/softmax",
        "builtin/softmax:gpu",
    ]
    assert _names("builtin/softmax", "builtin/softmax") == ["builtin/softmax"]


def test_an_order_is_drawn_from_a_seed_before_the_limit() -> None:
    assert _names("builtin", shuffle=1) == _names("builtin", shuffle=1)
    assert _names("builtin", shuffle=1) != _names("builtin", shuffle=2)
    assert _names("builtin", shuffle=1, limit=3) == _names("builtin", shuffle=1)[:3]


def test_kernelbench_levels_and_problems(tmp_path: Path) -> None:
    for level, number in ((1, 1), (2, 1), (2, 10), (2, 9)):
        folder = tmp_path / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}_Thing.py").write_text(REFERENCE + f"# {level} {number}\n")
    root = {"root": tmp_path}
    assert _names("kernelbench:level2", **root) == [
        "level2/1_Thing", "level2/9_Thing", "level2/10_Thing",
    ]  # fmt: skip
    assert _names("level1/1", **root) == ["level1/1_Thing"]
    with pytest.raises(UsageError, match="level7"):
        _names("kernelbench:level7", **root)


def test_files_with_split_and_sizes(tmp_path: Path) -> None:
    drafts = [draft for number in range(30) if (draft := compose(1, number, range(1, 3)))]
    records = [draft.record for draft in drafts]
    write_records(records, tmp_path / "synth.jsonl")
    path = str(tmp_path / "synth.jsonl")
    train = [one.name for one in records if one.split == "train"]
    assert _names(path, split="train") == train
    small, large = (
        load_tasks(TaskSettings.model_validate({"source": (path,), "scale": scale}))[0]
        for scale in ("lint", "full")
    )
    assert small.labels["scale"] == "lint"
    assert small.content_hash != large.content_hash
    mine = tmp_path / "mine.jsonl"
    mine.write_text("".join(json.dumps(task(f"m{n}").model_dump()) + "\n" for n in range(2)))
    assert _names(str(mine)) == ["m0", "m1"]


def test_two_references_of_one_name_are_told_apart(tmp_path: Path) -> None:
    one = task("same")
    other = one.model_copy(update={"reference": one.reference + "# other\n"})
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(each.model_dump()) + "\n" for each in (one, other)))
    names = _names(str(path))
    assert len(set(names)) == 2
    assert all(name.startswith("same@") for name in names)


def test_a_resumed_run_has_the_tasks_it_began_with(tmp_path: Path) -> None:
    settings = TaskSettings(source=("builtin/softmax", "builtin/add"))
    assert [one.name for one in tasks_for(tmp_path, settings)] == ["builtin/softmax", "builtin/add"]
    (tmp_path / "tasks.jsonl").write_text(task("stored").model_dump_json() + "\n")
    assert tasks_for(tmp_path, settings) == [task("stored")]


@pytest.mark.parametrize(
    "source", ["bultin", "synth:1", "synth:a:b", "kernelbench-2", "builtin/sofmax", "no/file.jsonl"]
)
def test_what_does_not_exist_is_a_usage_error(source: str) -> None:
    with pytest.raises(UsageError):
        _names(source)


async def test_a_gym_must_have_an_address() -> None:
    with pytest.raises(UsageError, match="no address"):
        async with open_evaluator(GymSettings(server="localhost:1")):
            pass
