"""Options of the verbs that run a gym or a part of one: `up`, `serve`, `worker`.

Field docstrings are the help texts. Importing this module imports neither server nor worker.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from kernelgym.errors import UsageError
from kernelgym.schema import JailLevel
from kernelgym.settings import ServerSettings, state_dir

if TYPE_CHECKING:
    from kernelgym.worker.main import Order

LogLevel = Literal["debug", "info", "warning", "error"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a server listens and keeps its state."""

    host: str = "127.0.0.1"
    """Address to listen on; one that other machines can reach needs --tokens."""
    port: int = 10907
    """Port to listen on; 0 takes a free one."""
    broker: str | None = None
    """URL of a Valkey or Redis >= 6.2; default $KERNELGYM_BROKER, else one of our own."""
    tokens: Path | None = None
    """File with one ROLE NAME TOKEN a line (client, worker, admin), mode 0600."""
    state: Path | None = None
    """Directory of broker, tokens and logs; default $KERNELGYM_STATE_DIR."""
    lease: float = 30.0
    """Seconds after which a silent worker loses its evaluations."""

    def settings(self, **more: Any) -> ServerSettings:
        """The server's settings; ``more`` are those that these options do not name."""
        return ServerSettings(
            host=self.host,
            port=self.port,
            broker=self.broker or os.environ.get("KERNELGYM_BROKER"),
            tokens=self.tokens,
            state_dir=self.state or state_dir(),
            lease_s=self.lease,
            **more,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Judging:
    """What a worker judges on, and how it confines candidates."""

    gpus: str | None = None
    """GPUs to use, e.g. 0,1; none for the CPU; default all."""
    preparing: int = 3
    """Evaluations prepared beside the running one, for each GPU."""
    slots: int | None = None
    """Without a GPU: evaluations at once; default one a core."""
    jail: JailLevel = "L1"
    """Confinement of candidates, which the worker proves on itself before it starts."""
    fallback: Annotated[bool, Parameter(negative="")] = False
    """Work at a lower level when this machine cannot give it; results say which."""

    def order(self, server: str = "", **more: Any) -> Order:
        """What the worker's process is told; ``more`` are fields of `Order`."""
        from kernelgym.worker.main import Order

        return Order(
            server=server,
            name="",
            gpus=parse_gpus(self.gpus),
            preparing=self.preparing,
            cpu_slots=self.slots,
            jail=self.jail,
            fallback=self.fallback,
            **more,
        )


def parse_gpus(text: str | None) -> tuple[int, ...] | None:
    """``0,1``, ``none``, or None for all."""
    if text is None or text == "all":
        return None
    if text == "none":
        return ()
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError as error:
        raise UsageError(f"--gpus {text}: not a list of numbers", hint="--gpus 0,1") from error
