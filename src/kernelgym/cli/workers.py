"""``kernelgym workers``: who judges, on what, in which state."""

from __future__ import annotations

import json as json_module

from kernelgym.api import WorkerStatus
from kernelgym.cli.options import Json
from kernelgym.cli.service_options import Server, TokenFile, connect
from kernelgym.report.table import table

_HEADER = ("worker", "seen", "jail", "device", "model", "held", "done", "state")


def workers(*, server: Server = None, token_file: TokenFile = None, json: Json = False) -> int:
    """Show the gym's workers and their devices.

    Parameters
    ----------
    server
        Address of the gym.
    token_file
        File with a client's token.
    """
    with connect(server, token_file) as gym:
        listed = gym.workers()
    if json:
        print(json_module.dumps([one.model_dump(mode="json") for one in listed], indent=2))
    elif not listed:
        print("no workers: kernelgym worker --server URL")
    else:
        print("\n".join(table(_HEADER, [row for one in listed for row in _rows(one)], width=160)))
    return 0


def _rows(one: WorkerStatus) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for device in one.info.devices:
        state = device.state if one.alive else "silent"
        counts = (str(device.held), str(device.done))
        words = f"{state} {device.note}".strip()
        if one.info.draining:
            words += " (draining)"
        seen = f"{one.seen_s:.0f} s"
        rows.append((one.name, seen, one.info.jail, device.name, device.model, *counts, words))
    return rows
