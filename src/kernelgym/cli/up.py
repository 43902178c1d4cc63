"""``kernelgym up``: a whole gym on this machine, in the foreground, until Ctrl-C."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kernelgym.cli.serve import LogLevel
from kernelgym.cli.service_extra import require_service
from kernelgym.cli.worker import Gpus, parse_gpus
from kernelgym.schema import JailLevel
from kernelgym.settings import ServerSettings, state_dir


def up(
    *,
    host: str = "127.0.0.1",
    port: int = 10907,
    broker: str | None = None,
    tokens: Path | None = None,
    state: Path | None = None,
    gpus: Gpus = None,
    preparing: int = 3,
    slots: int | None = None,
    jail: JailLevel = "L1",
    fallback: Annotated[bool, Parameter(negative="")] = False,
    lease: float = 30.0,
    log_level: LogLevel = "info",
) -> int:
    """Run broker, server and worker on this machine; Ctrl-C stops all of it.

    Queue and results stay in the state directory and are there again the next time.

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
        Directory of broker, tokens and logs; default $KERNELGYM_STATE_DIR, else
        ~/.local/state/kernelgym.
    gpus
        Which GPUs.
    preparing
        Evaluations prepared beside the running one, for each GPU.
    slots
        Without a GPU: evaluations at once; default one a core.
    jail
        Confinement of candidates, which the worker proves on itself first.
    fallback
        Work at a lower level when this machine cannot give it; results say which.
    lease
        Seconds after which a silent worker loses its evaluations.
    log_level
        Least important level that is logged, in STATE/logs.
    """
    require_service()
    from kernelgym import logs
    from kernelgym.worker.local_gym import LocalGym
    from kernelgym.worker.main import Order

    directory = (state or state_dir()).resolve()
    logs.configure("warning", directory / "logs" / "supervisor.log")
    settings = ServerSettings(
        host=host,
        port=port,
        broker=broker or os.environ.get("KERNELGYM_BROKER"),
        tokens=tokens,
        state_dir=directory,
        lease_s=lease,
    )
    order = Order(
        server="",
        name="",
        gpus=parse_gpus(gpus),
        preparing=preparing,
        cpu_slots=slots,
        jail=jail,
        fallback=fallback,
    )

    def announce(address: str) -> None:
        lines = [f"gym at {address} (status page: {address}/ui)", f"logs in {directory / 'logs'}"]
        lines.append("stop with Ctrl-C; submit with: kernelgym submit CAND.py --task builtin/NAME")
        print("\n".join(lines), file=sys.stderr, flush=True)

    LocalGym(settings, order, log_level).run(announce)
    return 0
