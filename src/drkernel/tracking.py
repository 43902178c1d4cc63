"""Metrics of a run: a JSON line a step always, a line on the console, TensorBoard on request.

``metrics.jsonl`` holds at most one line a step: what a killed run wrote after its last checkpoint
is dropped when it is continued, so that the file of a resumed run is that of an uninterrupted one.
Names are paths, ``part/what`` or ``part/turn_1/what``. Importing this module imports no torch.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from kernelgym.errors import UsageError

Value = float | int | str | None


class Tracker:
    """Where a run's numbers go."""

    def __init__(
        self,
        path: Path,
        *,
        start: int = 0,
        tensorboard: Path | None = None,
        console: TextIO | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open ``path`` for steps from ``start`` on; later lines of an earlier run are dropped.

        ``console``: where the line of each step goes; standard error by default.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        _keep_before(path, start)
        self._board = _board(tensorboard, start) if tensorboard else None
        self._file = path.open("a", encoding="utf-8")
        self._console = console
        self._clock = clock

    def log(
        self, step: int, metrics: Mapping[str, Value], *, line: Mapping[str, str] | None = None
    ) -> None:
        """Write one step; ``line``: what the console shows, label to name of the metric."""
        record: dict[str, Value] = {"step": step, "time": round(self._clock(), 3)}
        record |= {name: clean(value) for name, value in metrics.items()}
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._board is not None:
            for name, value in metrics.items():
                if isinstance(value, int | float) and math.isfinite(value):
                    self._board.add_scalar(name, value, step)
        if line:
            stream = self._console or sys.stderr
            stream.write(console_line(step, metrics, line) + "\n")
            stream.flush()

    def close(self) -> None:
        """Write everything out."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def clean(value: Value) -> Value:
    """Numbers that JSON has; what is no number becomes None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def console_line(step: int, metrics: Mapping[str, Value], line: Mapping[str, str]) -> str:
    """``step 12  loss 0.31  ...``; what was not measured is left out.

    >>> console_line(3, {"sft/loss": 0.12346, "t/step_s": 2.0}, {"loss": "sft/loss", "x": "y"})
    'step 3  loss 0.1235'
    """
    parts = [f"step {step}"]
    for label, name in line.items():
        value = metrics.get(name)
        if isinstance(value, float) and math.isnan(value):
            value = None
        if value is not None:
            shown = f"{value:.4g}" if isinstance(value, float) else str(value)
            parts.append(f"{label} {shown}")
    return "  ".join(parts)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every complete line of a ``metrics.jsonl``."""
    lines: list[dict[str, Any]] = []
    with path.open(encoding="utf-8") as file:
        for text in file:
            if text.endswith("\n"):
                lines.append(json.loads(text))
    return lines


def _keep_before(path: Path, start: int) -> None:
    """Drop lines of step ``start`` and later, and half a line at the end."""
    if not path.exists():
        return
    kept = [line for line in read_metrics(path) if int(line["step"]) < start]
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in kept)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _board(folder: Path, start: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UsageError(
            "TensorBoard was asked for and is not installed", hint="pip install tensorboard"
        ) from error
    return SummaryWriter(str(folder), purge_step=start)
