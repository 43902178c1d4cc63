"""Import: the authors' rows, our own, folders; bad rows are listed and stop nobody."""

import json
from pathlib import Path

import pytest

from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.importing import Imported, import_tasks

REFERENCE = """\
import torch


class TripletLoss(torch.nn.Module):
    def forward(self, x):
        return x.relu()


def get_inputs():
    return [torch.rand(4)]


def get_init_inputs():
    return []
"""
RL_ROW = {
    "data_source": "cuda_llm_rl",
    "prompt": [{"role": "user", "content": "Write a kernel."}],
    "ability": "kernel",
    "reward_model": {"ground_truth": REFERENCE, "style": "rule"},
    "extra_info": {
        "entry_point": "TripletLoss",
        "level": 2,
        "module_name": "Triplet",
        "ops": ["relu", "sum"],
        "original_prompt": None,
        "repo_name": "someone/something",
        "type": "module",
        "uuid": 17,
    },
}
VALIDATION_ROW = {
    "data_source": "kernelbench_level2_validation",
    "prompt": [{"role": "user", "content": "Write a kernel."}],
    "reward_model": {
        "ground_truth": REFERENCE.replace("TripletLoss", "Model").replace("relu", "tanh"),
        "style": "rule",
    },
    "ability": "kernel",
    "extra_info": {"difficulty": None, "name": "40_Matmul", "problem_id": 40},
}


def write_lines(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def reasons(found: Imported) -> str:
    return "\n".join(bad.reason for bad in found.bad)


def test_rows_for_training_and_validation(tmp_path: Path):
    found = import_tasks(write_lines(tmp_path / "rows.jsonl", [RL_ROW, VALIDATION_ROW]))
    assert not found.bad
    first, second = found.tasks
    assert (first.entry_point, first.name, first.origin) == (
        "TripletLoss",
        "Triplet",
        "cuda_llm_rl",
    )
    assert first.labels["ops"] == "relu sum"
    assert first.labels["level"] == "2"
    assert first.labels["uuid"] == "17"
    assert (second.entry_point, second.name) == ("Model", "40_Matmul")
    assert second.labels["problem_id"] == "40"
    assert "difficulty" not in second.labels


def test_nested_columns_stored_as_text(tmp_path: Path):
    row = {**RL_ROW, "reward_model": json.dumps(RL_ROW["reward_model"])}
    row["extra_info"] = json.dumps(RL_ROW["extra_info"])
    assert import_tasks(write_lines(tmp_path / "rows.jsonl", [row])).tasks[0].name == "Triplet"


def test_trajectories_and_our_own_rows(tmp_path: Path):
    cold = {"original_python_code": REFERENCE, "entry_point": "TripletLoss", "module_name": "M"}
    own = Task(name="own", reference=REFERENCE, entry_point="TripletLoss")
    other = Task(name="other", reference=REFERENCE + "\n", entry_point="TripletLoss")
    rows = [cold, json.loads(other.model_dump_json())]
    found = import_tasks(write_lines(tmp_path / "rows.jsonl", rows))
    assert [task.name for task in found.tasks] == ["M", "other"]
    assert found.tasks[0].content_hash == own.content_hash


def test_synthetic_records_become_their_base_task(tmp_path: Path):
    from kernelgym.tasks.synth.compose import compose

    draft = next(d for n in range(9) if (d := compose(1, n, range(1, 9))))
    path = tmp_path / "synth.jsonl"
    path.write_text(draft.record.model_dump_json() + "\n", encoding="utf-8")
    assert import_tasks(path).tasks == [draft.record.task()]


def test_bad_rows_are_listed_with_place_and_reason(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    bad: list[object] = [
        17,
        {"unknown": 1},
        {**RL_ROW, "reward_model": {"style": "rule"}},
        {**RL_ROW, "reward_model": 5},
        {**RL_ROW, "reward_model": {"ground_truth": "def ("}},
        {**RL_ROW, "reward_model": {"ground_truth": REFERENCE.replace("get_inputs", "inputs")}},
        {**RL_ROW, "extra_info": {"entry_point": "Absent"}},
        {**RL_ROW, "reward_model": {"ground_truth": "x = 1\0"}},
        {**RL_ROW, "reward_model": {"ground_truth": "(" * 100_000}},
    ]
    write_lines(path, [*bad, RL_ROW, RL_ROW])
    with path.open("ab") as file:
        file.write(b"\xff\xfe\n{not json\n")
    found = import_tasks(path)
    assert [task.name for task in found.tasks] == ["Triplet"]
    assert found.duplicates == 1
    assert found.rows == len(bad) + 4
    assert [row.where for row in found.bad] == [
        f"{path}:{n}" for n in (*range(1, len(bad) + 1), len(bad) + 3, len(bad) + 4)
    ]
    for text in ("not a int", "no reference", "not Python", "get_inputs", "'Absent'", "not JSON"):
        assert text in reasons(found), reasons(found)


def test_a_folder_of_references(tmp_path: Path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.py").write_text(REFERENCE, encoding="utf-8")
    (tmp_path / "two.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "three.py").write_bytes(b"\0\0")
    write_lines(tmp_path / "rows.jsonl", [VALIDATION_ROW])
    found = import_tasks(tmp_path)
    assert sorted(task.name for task in found.tasks) == ["40_Matmul", "one"]
    assert found.tasks[0].entry_point == "TripletLoss"
    assert len(found.bad) == 2
    assert "binary" in reasons(found)


def test_a_limit_stops_early(tmp_path: Path):
    path = write_lines(tmp_path / "rows.jsonl", [RL_ROW, VALIDATION_ROW])
    assert len(import_tasks(path, limit=1).tasks) == 1


@pytest.mark.parametrize("name", ["absent.jsonl", "absent.json", "empty"])
def test_a_source_that_cannot_be_read(tmp_path: Path, name: str):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError):
        import_tasks(tmp_path / name)


def test_a_json_array(tmp_path: Path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([RL_ROW, 3]), encoding="utf-8")
    found = import_tasks(path)
    assert len(found.tasks) == 1
    assert found.bad[0].where == f"{path}#1"


def test_parquet_with_the_authors_columns(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    path = tmp_path / "rows.parquet"
    write_table(pyarrow.Table.from_pylist([RL_ROW, {**RL_ROW, "reward_model": None}]), path)
    found = import_tasks(path)
    assert [task.name for task in found.tasks] == ["Triplet"]
    assert found.bad[0].where == f"{path}#1"
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(UsageError, match="cannot read"):
        import_tasks(tmp_path / "broken.parquet")
    assert len(import_tasks(tmp_path).bad) == 2  # the null row, and the broken file
