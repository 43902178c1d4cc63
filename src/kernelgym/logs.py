"""Logs as JSON lines: one object a line, no sources, no results, no tokens."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

_FILE_BYTES = 20_000_000
_STANDARD = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """A record, and what its caller passed as ``extra``, as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {k: v for k, v in record.__dict__.items() if k not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str, file: Path | None = None) -> None:
    """Send every logger's records to stderr, or to a file of bounded size, as JSON."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handler = RotatingFileHandler(file, maxBytes=_FILE_BYTES, backupCount=2)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # the transport layer writes that line
    logging.getLogger("httpx").setLevel(logging.WARNING)
