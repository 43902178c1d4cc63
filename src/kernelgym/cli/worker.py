"""``kernelgym worker``: judge for a gym, on this machine's GPUs or its CPU."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from kernelgym.cli.serve import LogLevel
from kernelgym.cli.service_options import Server, TokenFile, address
from kernelgym.errors import UsageError
from kernelgym.schema import JailLevel
from kernelgym.settings import server_url, state_dir, token_from

Gpus = Annotated[
    str | None,
    Parameter(name="--gpus", help="GPUs to use, e.g. 0,1; none for the CPU; default all."),
]


def worker(
    *,
    server: Server = None,
    token_file: TokenFile = None,
    gpus: Gpus = None,
    preparing: int = 3,
    slots: int | None = None,
    jail: JailLevel = "L1",
    fallback: Annotated[bool, Parameter(negative="")] = False,
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
    gpus
        Which GPUs.
    preparing
        Evaluations prepared beside the running one, for each GPU.
    slots
        Without a GPU: evaluations at once; default one a core.
    jail
        Confinement that the worker proves on itself before it starts.
    fallback
        Work at a lower level when this machine cannot give it; results say which.
    grace
        Seconds that running evaluations get after SIGTERM.
    log_level
        Least important level that is logged.
    """
    from kernelgym import logs
    from kernelgym.worker.main import Order
    from kernelgym.worker.node import run_worker

    logs.configure(log_level)
    url = server_url(address(server))
    token = token_from(token_file) or _local_token()
    order = Order(
        server=url,
        token=token,
        name="",
        gpus=parse_gpus(gpus),
        preparing=preparing,
        cpu_slots=slots,
        jail=jail,
        fallback=fallback,
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
