"""Trajectories as Parquet, in the columns of drkernel-coldstart-8k.

``messages`` holds user and assistant in turn; ``best_round`` counts from 1; ``final_speedup`` is
that of the best round, null where nothing was timed. Needs pyarrow (extra ``data``). Not covered:
token ids and log-probabilities, which stay in the run's ``episodes.jsonl``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from drkernel.collect.selection import best_turn
from drkernel.types import Episode
from kernelgym.errors import UsageError
from kernelgym.schema import Task

COLUMNS = (
    "messages", "uuid", "entry_point", "repo_name", "module_name", "final_speedup", "num_rounds",
    "original_python_code", "best_round", "timestamp", "conversion_mode", "enable_thinking",
)  # fmt: skip


def messages_of(episode: Episode) -> list[dict[str, str]]:
    """The conversation: of each turn the last message of its prompt, then its answer.

    The first turn's prompt is taken whole. Where later prompts showed only some earlier turns, this
    is still everything that was said, in order.
    """
    said: list[dict[str, str]] = []
    for turn in episode.turns:
        new = turn.prompt if turn.index == 0 else turn.prompt[-1:]
        said += [{"role": message.role, "content": message.content} for message in new]
        said.append({"role": "assistant", "content": turn.generation.text})
    return said


def row_of(episode: Episode, task: Task, *, backend: str, ended_at: str) -> dict[str, Any]:
    """One row."""
    best = best_turn(episode)
    digest = hashlib.sha256(f"{episode.task_hash}\0{episode.id}\0{episode.seed}".encode())
    return {
        "messages": messages_of(episode),
        "uuid": int.from_bytes(digest.digest()[:6], "big"),
        "entry_point": task.entry_point,
        "repo_name": task.labels.get("repo_name") or task.origin,
        "module_name": task.labels.get("module_name") or task.name,
        "final_speedup": None if best is None else best.speedup,
        "num_rounds": len(episode.turns),
        "original_python_code": task.reference,
        "best_round": None if best is None else best.index + 1,
        "timestamp": ended_at,
        "conversion_mode": backend,
        "enable_thinking": any(turn.generation.reasoning for turn in episode.turns),
    }


def need_pyarrow() -> None:
    """Raises `UsageError` without it: before anything is played, not after."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError("writing Parquet needs pyarrow", hint="pip install 'drkernel[data]'")


def write_parquet(rows: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write the rows; the file is there as a whole, or as it was. Returns how many."""
    need_pyarrow()
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema(
        [
            ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
            ("uuid", pa.int64()),
            ("entry_point", pa.string()),
            ("repo_name", pa.string()),
            ("module_name", pa.string()),
            ("final_speedup", pa.float64()),
            ("num_rounds", pa.int64()),
            ("original_python_code", pa.string()),
            ("best_round", pa.int64()),
            ("timestamp", pa.string()),
            ("conversion_mode", pa.string()),
            ("enable_thinking", pa.bool_()),
        ]
    )
    listed = [dict(row) for row in rows]
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    parquet.write_table(pa.Table.from_pylist(listed, schema=schema), draft)
    draft.replace(path)
    return len(listed)
