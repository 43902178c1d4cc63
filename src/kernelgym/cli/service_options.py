"""Options of the verbs that talk to a gym, and how they find it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kernelgym.client import Gym
from kernelgym.errors import UsageError
from kernelgym.settings import state_dir, token_from

Server = Annotated[
    str | None,
    Parameter(name="--server", help="Address of the gym; default $KERNELGYM_SERVER, this machine."),
]
TokenFile = Annotated[
    Path | None,
    Parameter(name="--token-file", help="File with the token; default $KERNELGYM_TOKEN."),
]


def connect(server: str | None, token_file: Path | None, *, patience_s: float = 20.0) -> Gym:
    """A client of the gym that the options name, or of the one that `kernelgym up` runs here."""
    return Gym(address(server), token=token_from(token_file), patience_s=patience_s)


def address(server: str | None) -> str | None:
    """The option; the environment; the gym of this user on this machine, if it has another port."""
    if server is not None and not server.startswith(("http://", "https://")):
        raise UsageError(
            f"--server {server}: not an http address", hint="--server http://HOST:PORT"
        )
    if server or "KERNELGYM_SERVER" in os.environ:
        return server
    running = state_dir() / "address"
    try:
        return running.read_text().strip() or None
    except OSError:
        return None
