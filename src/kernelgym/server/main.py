"""The server as a program of a supervisor: settings as JSON on stdin, secrets included.

python -m kernelgym.server.main < settings.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel

from kernelgym.server.run import serve
from kernelgym.settings import ServerSettings


class Order(BaseModel):
    """What the supervisor asks for."""

    settings: ServerSettings
    log_level: str = "info"
    log_file: Path | None = None
    ready: Path | None = None


def main() -> None:
    """Read the order and serve."""
    order = Order.model_validate_json(sys.stdin.buffer.read())
    serve(order.settings, log_level=order.log_level, log_file=order.log_file, ready=order.ready)


if __name__ == "__main__":
    main()
