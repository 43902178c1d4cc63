"""Evaluations by content: the same candidate on the same task is judged once, for all runs.

A database (SQLite) that any number of runs may share. What comes out of it is marked
(`is_reused`): its timing is the old one, so it is no new sample in an interval. Faults of the gym
are never kept. Not covered: two processes that ask for the same thing at the same moment; both
evaluate, and the first answer stays.
"""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from drkernel.rollout.evaluator import Evaluator
from kernelgym.api import EvaluationRequest
from kernelgym.schema import EvalResult, Outcome, Submission

REUSED = "reused_from"
"""Key in ``provenance.flags`` of a result that was not judged anew: when it had been."""
_TABLE = """
CREATE TABLE IF NOT EXISTS evaluations (
    key TEXT PRIMARY KEY, at TEXT NOT NULL, task TEXT NOT NULL, result TEXT NOT NULL
)
"""
_WAIT_S = 60.0


def is_reused(result: EvalResult) -> bool:
    """Whether the result came out of a store."""
    return REUSED in result.provenance.flags


class EvaluationStore:
    """The database."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(_TABLE)

    def get(self, key: str) -> EvalResult | None:
        """The stored verdict, marked as reused."""
        row = self._connection.execute(
            "SELECT at, result FROM evaluations WHERE key = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        result = EvalResult.model_validate_json(row[1])
        flags = result.provenance.flags | {REUSED: str(row[0])}
        provenance = result.provenance.model_copy(update={"flags": flags})
        return result.model_copy(update={"provenance": provenance})

    def put(self, key: str, result: EvalResult) -> None:
        """Keep a verdict; the first one stays."""
        self._connection.execute(
            "INSERT OR IGNORE INTO evaluations VALUES (?, ?, ?, ?)",
            (key, datetime.now(UTC).isoformat(), result.task, result.model_dump_json()),
        )

    def count(self) -> int:
        """Verdicts kept."""
        return int(self._connection.execute("SELECT COUNT(*) FROM evaluations").fetchone()[0])

    def close(self) -> None:
        """Write everything out."""
        self._connection.close()


class StoredEvaluator:
    """An `Evaluator` that asks the store first."""

    def __init__(self, inner: Evaluator, store: EvaluationStore, *, device: str) -> None:
        """``device``: what judges, as part of the key: a timing belongs to its GPU."""
        self._inner, self._store, self._device = inner, store, device
        self._running: dict[str, asyncio.Future[EvalResult | None]] = {}
        self.asked = 0
        """Evaluations asked for."""
        self.reused = 0
        """Of these, answered without a new evaluation."""

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        """As `Evaluator.evaluate`; ``force`` judges anew."""
        self.asked += 1
        name = self.key_of(submission)
        if force:
            return await self._judge(name, submission, key, force=True)
        known = self._store.get(name)
        if known is None and name in self._running:
            await asyncio.wait([self._running[name]])
            known = self._store.get(name)
        if known is not None:
            self.reused += 1
            return known
        running: asyncio.Future[EvalResult | None]
        running = asyncio.ensure_future(self._judge(name, submission, key, force=False))
        self._running[name] = running
        try:
            return await running
        finally:
            self._running.pop(name, None)

    def key_of(self, submission: Submission) -> str:
        """Hash over candidate, task, protocol, evaluator version and device."""
        device = "".join(c if c.isalnum() else "-" for c in self._device) or "any"
        return EvaluationRequest(submission=submission, device=device[:64]).content_hash()

    async def _judge(
        self, name: str, submission: Submission, key: str, *, force: bool
    ) -> EvalResult | None:
        result = await self._inner.evaluate(submission, key=key, force=force)
        if result is not None and result.outcome is not Outcome.INFRASTRUCTURE:
            self._store.put(name, result)
        return result
