"""Chat rows in files: JSON lines or Parquet, one conversation a row.

The schema is that of the paper's cold-start data: a column of messages (role and content) and any
other columns, of which one may name the task. Imports no torch; Parquet needs pyarrow.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drkernel.sft.settings import DataSettings
from drkernel.types import Message
from kernelgym.errors import UsageError


@dataclass(frozen=True)
class Conversation:
    """One trajectory."""

    messages: tuple[Message, ...]
    """In time order; at least one is the assistant's."""
    group: str
    """What it is about: conversations of one group are never on both sides of a split."""


@dataclass(frozen=True)
class Split:
    """Conversations to train on, and others."""

    train: tuple[Conversation, ...]
    held_out: tuple[Conversation, ...]


def read_split(settings: DataSettings) -> Split:
    """What the settings name.

    Raises:
        UsageError: without files, or for a row that is no conversation; names file and row.
    """
    if not settings.files:
        raise UsageError("there is no data to train on", hint="--data.files FILE.jsonl")
    train = tuple(_read_all(settings.files, settings))
    if settings.eval_files:
        return Split(train, tuple(_read_all(settings.eval_files, settings)))
    held_out = tuple(c for c in train if _point(c.group) < settings.eval_share)
    left = tuple(c for c in train if _point(c.group) >= settings.eval_share)
    if not left:
        raise UsageError(
            "eval_share leaves nothing to train on", hint="--data.eval-share 0, or more data"
        )
    return Split(left, held_out)


def _point(group: str) -> float:
    """A number in [0, 1) that belongs to the group."""
    return int.from_bytes(hashlib.sha256(group.encode()).digest()[:8], "big") / 2**64


def _read_all(files: Iterable[str], settings: DataSettings) -> Iterator[Conversation]:
    for name in files:
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"there is no file {path}", hint=f"ls {path.parent}")
        number = 0
        for number, row in enumerate(_rows(path), 1):
            yield _conversation(row, settings, f"{path}:{number}")
        if not number:
            raise UsageError(f"{path} holds no row")


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UsageError(f"{path}:{number} is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise UsageError(f"{path}:{number} must be an object with a column of messages")
            yield row


def _parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            "Parquet files need pyarrow", hint="pip install 'drkernel[data]'"
        ) from error
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=256):
        yield from batch.to_pylist()


def _conversation(row: Mapping[str, Any], settings: DataSettings, where: str) -> Conversation:
    given = row.get(settings.messages_column)
    if given is None:
        raise UsageError(
            f"{where} has no column {settings.messages_column!r}; it has: {', '.join(sorted(row))}",
            hint="--data.messages-column NAME",
        )
    try:
        messages = tuple(Message.model_validate(message) for message in given)
    except (ValidationError, TypeError) as error:
        raise UsageError(
            f"{where}: every message needs a role (system, user, assistant) and a content: "
            f"{str(error).splitlines()[0]}"
        ) from error
    if not any(message.role == "assistant" for message in messages):
        raise UsageError(f"{where}: no message is the assistant's, so there is nothing to learn")
    group = row.get(settings.group_column) or _first_question(messages)
    return Conversation(messages, str(group))


def _first_question(messages: Iterable[Message]) -> str:
    return next((m.content for m in messages if m.role == "user"), "")
