"""``kernelgym serve``: the HTTP server, on its own broker or one of the operator's."""

from __future__ import annotations

from kernelgym.cli.gym_options import Listening, LogLevel
from kernelgym.cli.service_extra import require_service

_LISTENING = Listening()


def serve(
    *,
    listening: Listening = _LISTENING,
    hostname: tuple[str, ...] = (),
    result_ttl: float = 86_400.0,
    retries: int = 3,
    max_queued: int = 200_000,
    log_level: LogLevel = "info",
) -> int:
    """Serve the gym's HTTP interface until SIGTERM.

    Logs go to stderr as JSON lines. Workers join with: kernelgym worker --server URL.

    Parameters
    ----------
    hostname
        Names besides localhost by which a loopback server may be called.
    result_ttl
        Seconds for which results are kept.
    retries
        Infrastructure failures that an evaluation survives.
    max_queued
        Most evaluations waiting; more are refused with 429.
    log_level
        Least important level that is logged.
    """
    require_service()
    from kernelgym.server.run import serve as run_server

    settings = listening.settings(
        hostnames=hostname, result_ttl_s=result_ttl, max_retries=retries, max_queued=max_queued
    )
    run_server(settings, log_level=log_level)
    return 0
