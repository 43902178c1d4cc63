"""Where the gym is and what it may keep: addresses and secrets from the environment, all typed.

    KERNELGYM_SERVER     address of the gym, for clients and workers
    KERNELGYM_TOKEN      bearer token
    KERNELGYM_BROKER     URL of the broker, for the server
    KERNELGYM_STATE_DIR  where an embedded broker and tokens live

Nothing else is read from the environment. Importing this module imports neither FastAPI nor redis.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kernelgym.api import DEFAULT_PORT, MAX_BATCH_ITEMS
from kernelgym.errors import UsageError

DEFAULT_SERVER = f"http://127.0.0.1:{DEFAULT_PORT}"


def state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Where this user's gym keeps its broker and tokens."""
    if named := environment.get("KERNELGYM_STATE_DIR"):
        return Path(named)
    base = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "kernelgym"


def server_url(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Address of the gym: the option, the environment, this machine."""
    return (given or environment.get("KERNELGYM_SERVER") or DEFAULT_SERVER).rstrip("/")


def token_from(path: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Bearer token: a file, the environment, or none."""
    if path is not None:
        try:
            return path.read_text().strip()
        except OSError as error:
            raise UsageError(f"cannot read the token file {path}: {error.strerror}") from error
    return environment.get("KERNELGYM_TOKEN") or None


class ServerSettings(BaseModel):
    """How one server runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    host: str = "127.0.0.1"
    """Address to listen on; another than this machine's own needs a tokens file."""
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    broker: str | None = None
    """URL of the broker: ``redis://...``, ``rediss://...``, ``unix://...``; None starts our own."""
    state_dir: Path
    """Where our own broker and generated tokens live."""
    tokens: Path | None = None
    """File with one ``ROLE NAME TOKEN`` a line; with it, nobody gets in without."""
    hostnames: tuple[str, ...] = ()
    """Names by which clients may call a server on a loopback address, besides ``localhost``."""
    max_body_bytes: int = Field(default=64 << 20, ge=1 << 10)
    """Largest request."""
    max_batch: int = Field(default=MAX_BATCH_ITEMS, ge=1, le=MAX_BATCH_ITEMS)
    """Most evaluations in one request."""
    lease_s: float = Field(default=30.0, ge=0.2, le=600)
    """A worker that is silent for so long loses its evaluations."""
    result_ttl_s: float = Field(default=86_400.0, gt=0)
    """Results are kept for so long after the end."""
    max_retries: int = Field(default=3, ge=0, le=100)
    """Infrastructure failures that an evaluation survives."""
    max_queued: int = Field(default=200_000, ge=1)
    """Most evaluations waiting."""
    max_open_per_client: int = Field(default=100_000, ge=1)
    """Most unfinished evaluations of one client."""
    max_stored_mb: int = Field(default=4_000, ge=1)
    """Most megabytes of sources and results kept by the broker."""

    @property
    def public(self) -> bool:
        """Whether other machines can reach it."""
        return not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
