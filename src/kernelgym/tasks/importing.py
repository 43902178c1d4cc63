"""Tasks from elsewhere: JSONL, Parquet, folders of reference files.

Known rows, by their columns:

==============================  ===================================================================
``reward_model.ground_truth``   rows for reinforcement learning and for validation: the reference,
                                and facts about it in ``extra_info``
``original_python_code``        trajectories for a cold start: only the reference is taken
``reference``                   our own tasks, as ``kernelgym tasks import --out`` writes them
``model``, ``configurations``   our synthetic tasks
==============================  ===================================================================

A row that cannot become a task is counted and listed with its place and reason; nothing a row holds
stops the others. No code is run: a reference must parse and define what it should, the task lint
finds out whether it works. Parquet needs the extra ``data``.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.source import read_source
from kernelgym.tasks.synth.record import SynthTask

PARQUET_BATCH = 256
SUFFIXES = (".jsonl", ".json", ".parquet", ".py")
_LABELS = (
    "level", "difficulty", "module_name", "name", "ops", "problem_id", "repo_name", "type", "uuid",
)  # fmt: skip
_LONGEST_LABEL = 500


@dataclass(frozen=True)
class BadRow:
    """A row that did not become a task."""

    where: str
    """``FILE:LINE``, ``FILE#ROW`` or a path."""
    reason: str


@dataclass
class Imported:
    """What a source held."""

    tasks: list[Task] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    duplicates: int = 0
    """Rows whose reference an earlier row had."""
    rows: int = 0
    """Rows that were read, good or bad."""


class _Unusable(Exception):
    """Why a row is no task."""


def import_tasks(source: Path, *, entry_point: str = "", limit: int | None = None) -> Imported:
    """Tasks of a file or of everything below a folder.

    ``entry_point`` is the class to look for where a row does not name one. Raises `UsageError` when
    the source itself cannot be read.
    """
    found = Imported()
    seen: set[str] = set()
    for where, row in _rows(source):
        if limit is not None and len(found.tasks) >= limit:
            break
        found.rows += 1
        try:
            task = _task(row, where, entry_point)
        except _Unusable as reason:
            found.bad.append(BadRow(where, str(reason)))
            continue
        if task.content_hash in seen:
            found.duplicates += 1
        else:
            seen.add(task.content_hash)
            found.tasks.append(task)
    return found


# --- rows -----------------------------------------------------------------------------------------


def _rows(source: Path) -> Iterator[tuple[str, object]]:
    """Place and content of every row; an `_Unusable` in place of one that cannot be read."""
    if source.is_dir():
        files = sorted(p for p in source.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        if not files:
            raise UsageError(
                f"no {', '.join(SUFFIXES)} below {source}", hint=f"ls -R {source} | head"
            )
        for path in files:
            try:
                yield from _file_rows(path)
            except UsageError as error:
                yield str(path), _Unusable(str(error))
    else:
        yield from _file_rows(source)


def _file_rows(path: Path) -> Iterator[tuple[str, object]]:
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
    elif path.suffix == ".py":
        yield str(path), {"file": path.stem, "reference": read_source(path, "reference")}
    elif path.suffix == ".json":
        yield from _json_rows(path)
    else:
        yield from _jsonl_rows(path)


def _jsonl_rows(path: Path) -> Iterator[tuple[str, object]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path}:{number}", _parsed(line)
    except OSError as error:
        raise _cannot_read(path, error) from error


def _json_rows(path: Path) -> Iterator[tuple[str, object]]:
    try:
        content = _parsed(path.read_bytes())
    except OSError as error:
        raise _cannot_read(path, error) from error
    if isinstance(content, list):
        for number, row in enumerate(content):
            yield f"{path}#{number}", row
    else:
        yield str(path), content


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        return _Unusable(f"not JSON: {error}"[:200])


def _parquet_rows(path: Path) -> Iterator[tuple[str, object]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise UsageError(
            "reading Parquet needs pyarrow", hint="pip install 'drkernel[data]'"
        ) from error
    number = 0
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=PARQUET_BATCH):
                for row in batch.to_pylist():
                    yield f"{path}#{number}", row
                    number += 1
    except (OSError, ArrowException) as error:
        raise _cannot_read(path, error) from error


def _cannot_read(path: Path, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"cannot read {path}: {reason}", hint=f"ls -l {path}")


# --- one row --------------------------------------------------------------------------------------


def _task(row: object, where: str, entry_point: str) -> Task:
    """The task of a row; raises `_Unusable`."""
    if isinstance(row, _Unusable):
        raise row
    if not isinstance(row, Mapping):
        raise _Unusable(f"a row must be an object, not a {type(row).__name__}")
    task = _by_columns({str(key): value for key, value in row.items()}, where, entry_point)
    _check(task)
    return task


def _by_columns(row: dict[str, Any], where: str, entry_point: str) -> Task:
    if "reward_model" in row:
        return _verl_row(row, where, entry_point)
    if "original_python_code" in row:
        return _make(
            reference=row["original_python_code"],
            entry_point=row.get("entry_point") or entry_point,
            name=row.get("module_name") or _place(where),
            origin="coldstart",
            labels=row,
        )
    if "file" in row:
        reference = row["reference"]
        return _make(
            reference=reference,
            entry_point=entry_point,
            name=row["file"],
            origin="folder",
            labels={},
        )
    try:
        if "configurations" in row:
            return SynthTask.model_validate(row).task()
        return Task.model_validate(row)
    except (ValidationError, UsageError) as error:
        first = str(error).replace("\n", " ")
        raise _Unusable(f"columns {', '.join(sorted(row))[:200]}: {first}"[:400]) from error


def _verl_row(row: dict[str, Any], where: str, entry_point: str) -> Task:
    reward, extra = _object(row["reward_model"]), _object(row.get("extra_info") or {})
    return _make(
        reference=reward.get("ground_truth"),
        entry_point=extra.get("entry_point") or entry_point,
        name=extra.get("name") or extra.get("module_name") or extra.get("uuid") or _place(where),
        origin=str(row.get("data_source") or "import"),
        labels={**extra, "level": extra.get("level") or row.get("ability")},
    )


def _object(value: object) -> dict[str, Any]:
    """A nested column, which some writers store as JSON text."""
    if isinstance(value, str):
        parsed = _parsed(value.encode())
        value = parsed if isinstance(parsed, dict) else value
    if not isinstance(value, Mapping):
        raise _Unusable(f"expected an object, got a {type(value).__name__}")
    return {str(key): item for key, item in value.items()}


def _make(
    *, reference: object, entry_point: object, name: object, origin: str, labels: Mapping[str, Any]
) -> Task:
    if not isinstance(reference, str) or not reference.strip():
        raise _Unusable("it holds no reference source")
    kept = {
        key: text[:_LONGEST_LABEL]
        for key in _LABELS
        if (text := _text(labels.get(key))) and text != "None"
    }
    try:
        return Task(
            name=str(name)[:200],
            reference=reference,
            entry_point=str(entry_point or _entry_point(reference)),
            origin=origin[:200],
            labels=kept,
        )
    except ValidationError as error:
        raise _Unusable(str(error).replace("\n", " ")[:400]) from error


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        return " ".join(str(item) for item in value)
    return "" if value is None else str(value)


def _place(where: str) -> str:
    return where.rpartition("/")[2]


# --- is it a reference? ---------------------------------------------------------------------------


def _parse(reference: str) -> ast.Module:
    try:
        return ast.parse(reference)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise _Unusable(f"the reference is not Python: {error}, line {line}"[:300]) from error


def _entry_point(reference: str) -> str:
    """``Model``, or else the last class that derives from something called Module."""
    classes = [node for node in _parse(reference).body if isinstance(node, ast.ClassDef)]
    names = [node.name for node in classes]
    if "Model" in names:
        return "Model"
    modules = [
        node.name for node in classes if any("Module" in ast.unparse(base) for base in node.bases)
    ]
    if not modules:
        raise _Unusable("the reference defines no torch.nn.Module")
    return modules[-1]


def _check(task: Task) -> None:
    """What can be said of a reference without running it."""
    names = {
        name
        for node in _parse(task.reference).body
        for name in ([node.name] if isinstance(node, ast.ClassDef | ast.FunctionDef) else [])
    }
    if task.entry_point not in names:
        raise _Unusable(f"the reference defines no class {task.entry_point!r}")
    if "get_inputs" not in names:
        raise _Unusable("the reference defines no get_inputs()")
