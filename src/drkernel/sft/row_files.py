"""Rows kept on disk, so that a run that goes on does not tokenise its data again.

    rows/KEY.npz   ids and targets of one set of rows, end to end, and what `RowCounts` counted

KEY is a hash of the texts, the tokenizer and what decides rows: other data are another file, and an
old one is never wrong. Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from drkernel.sft.chat_rows import RowCounts, make_rows
from drkernel.sft.conversations import Conversation
from drkernel.sft.settings import RowLayout
from drkernel.train.rows import Row

_VERSION = 1


def kept_rows(
    folder: Path,
    tokenizer: Any,
    conversations: Sequence[Conversation],
    *,
    max_tokens: int,
    layout: RowLayout,
) -> tuple[list[Row], RowCounts]:
    """`make_rows`, or what it gave before."""
    if not conversations:
        return make_rows(tokenizer, conversations, max_tokens=max_tokens, layout=layout)
    path = folder / f"{_key(tokenizer, conversations, max_tokens, layout)}.npz"
    if path.exists():
        return _read(path)
    rows, counts = make_rows(tokenizer, conversations, max_tokens=max_tokens, layout=layout)
    _write(path, rows, counts)
    return rows, counts


def _key(
    tokenizer: Any, conversations: Sequence[Conversation], max_tokens: int, layout: RowLayout
) -> str:
    found = hashlib.sha256(f"{_VERSION} {max_tokens} {layout}".encode())
    found.update(tokenizer.backend_tokenizer.to_str().encode())
    found.update(str(tokenizer.chat_template).encode())
    for conversation in conversations:
        for message in conversation.messages:
            found.update(f"\0{message.role}\0{message.content}".encode())
        found.update(b"\1")
    return found.hexdigest()[:32]


def _write(path: Path, rows: Sequence[Row], counts: RowCounts) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    largest = max(int(row.ids_L.max(initial=0)) for row in rows)
    draft = path.with_name(f".{path.name}")
    with draft.open("wb") as file:
        np.savez_compressed(
            file,
            ids=np.concatenate([row.ids_L for row in rows]).astype(np.min_scalar_type(largest)),
            trained=np.packbits(np.concatenate([row.trained_L for row in rows])),
            lengths=np.array([row.tokens for row in rows], dtype=np.int64),
            counts=np.array(json.dumps(asdict(counts))),
        )
    draft.replace(path)


def _read(path: Path) -> tuple[list[Row], RowCounts]:
    with np.load(path) as found:
        lengths = found["lengths"]
        ids = found["ids"].astype(np.int64)
        trained = np.unpackbits(found["trained"], count=ids.size).astype(bool)
        counts = RowCounts(**json.loads(str(found["counts"])))
    ends = np.cumsum(lengths)
    spans = zip(ends - lengths, ends, strict=True)
    return [Row(ids[start:end], trained[start:end]) for start, end in spans], counts
