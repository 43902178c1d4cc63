"""``kernelgym up``: a whole gym on this machine, in the foreground, until Ctrl-C."""

from __future__ import annotations

import sys

from kernelgym.cli.gym_options import Judging, Listening, LogLevel
from kernelgym.cli.service_extra import require_service

_LISTENING = Listening()
_JUDGING = Judging()


def up(
    *, listening: Listening = _LISTENING, judging: Judging = _JUDGING, log_level: LogLevel = "info"
) -> int:
    """Run broker, server and worker on this machine; Ctrl-C stops all of it.

    Queue and results stay in the state directory and are there again the next time.

    Parameters
    ----------
    log_level
        Least important level that is logged, in STATE/logs.
    """
    require_service()
    from kernelgym import logs
    from kernelgym.worker.local_gym import LocalGym

    settings = listening.settings()
    settings = settings.model_copy(update={"state_dir": settings.state_dir.resolve()})
    kept = settings.state_dir / "logs"
    logs.configure("warning", kept / "supervisor.log")

    def announce(address: str) -> None:
        lines = [f"gym at {address} (status page: {address}/ui)", f"logs in {kept}"]
        lines.append("stop with Ctrl-C; submit with: kernelgym submit CAND.py --task builtin/NAME")
        print("\n".join(lines), file=sys.stderr, flush=True)

    LocalGym(settings, judging.order(), log_level).run(announce)
    return 0
