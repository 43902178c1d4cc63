"""``kernelgym serve``: the HTTP server, on its own broker or one of the operator's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from kernelgym.settings import ServerSettings, state_dir

LogLevel = Literal["debug", "info", "warning", "error"]


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 10907,
    broker: str | None = None,
    tokens: Path | None = None,
    state: Path | None = None,
    hostname: tuple[str, ...] = (),
    lease: float = 30.0,
    result_ttl: float = 86_400.0,
    retries: int = 3,
    max_queued: int = 200_000,
    log_level: LogLevel = "info",
) -> int:
    """Serve the gym's HTTP interface until SIGTERM.

    Logs go to stderr as JSON lines. Workers join with: kernelgym worker --server URL.

    Parameters
    ----------
    host
        Address to listen on; one that other machines can reach needs --tokens.
    port
        Port to listen on; 0 takes a free one.
    broker
        URL of a Valkey or Redis >= 6.2; default $KERNELGYM_BROKER, else one of our own is started.
    tokens
        File with one ROLE NAME TOKEN a line (client, worker, admin), mode 0600.
    state
        Directory of our own broker and generated tokens; default $KERNELGYM_STATE_DIR, else
        ~/.local/state/kernelgym.
    hostname
        Names besides localhost by which a loopback server may be called.
    lease
        Seconds after which a silent worker loses its evaluations.
    result_ttl
        Seconds for which results are kept.
    retries
        Infrastructure failures that an evaluation survives.
    max_queued
        Most evaluations waiting; more are refused with 429.
    log_level
        Least important level that is logged.
    """
    from kernelgym.cli.service_extra import require_service

    require_service()
    from kernelgym.server.run import serve as run_server

    settings = ServerSettings(
        host=host,
        port=port,
        broker=broker or os.environ.get("KERNELGYM_BROKER"),
        tokens=tokens,
        state_dir=state or state_dir(),
        hostnames=hostname,
        lease_s=lease,
        result_ttl_s=result_ttl,
        max_retries=retries,
        max_queued=max_queued,
    )
    run_server(settings, log_level=log_level)
    return 0
