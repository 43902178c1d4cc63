"""``kernelgym worker``: judge for a gym, on this machine's GPUs or its CPU."""

from __future__ import annotations

from kernelgym.cli.gym_options import Judging, LogLevel
from kernelgym.cli.service_options import Server, TokenFile, address
from kernelgym.settings import server_url, state_dir, token_from

_JUDGING = Judging()


def worker(
    *,
    server: Server = None,
    token_file: TokenFile = None,
    judging: Judging = _JUDGING,
    grace: float = 60.0,
    log_level: LogLevel = "info",
) -> int:
    """Judge for a gym until SIGTERM, which lets running evaluations end.

    Parameters
    ----------
    server
        Address of the gym.
    token_file
        File with a worker's token.
    grace
        Seconds that running evaluations get after SIGTERM.
    log_level
        Least important level that is logged.
    """
    from kernelgym import logs
    from kernelgym.worker.node import run_worker

    logs.configure(log_level)
    order = judging.order(
        server_url(address(server)),
        token=token_from(token_file) or _local_token(),
        hidden=(str(state_dir()),),
        grace_s=grace,
        log_level=log_level,
    )
    run_worker(order)
    return 0


def _local_token() -> str | None:
    """The token of a server that this user runs on this machine."""
    try:
        return (state_dir() / "worker.token").read_text().strip()
    except OSError:
        return None
