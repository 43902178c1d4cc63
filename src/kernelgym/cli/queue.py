"""``kernelgym queue``: what waits, runs and has ended."""

from __future__ import annotations

from kernelgym.cli.options import Json
from kernelgym.cli.service_options import Server, TokenFile, connect
from kernelgym.report.table import table


def queue(*, server: Server = None, token_file: TokenFile = None, json: Json = False) -> int:
    """Show the gym's queue.

    Parameters
    ----------
    server
        Address of the gym.
    token_file
        File with a client's token.
    """
    with connect(server, token_file) as gym:
        view = gym.queue()
    if json:
        print(view.model_dump_json(indent=2))
        return 0
    states = ", ".join(f"{number} {state}" for state, number in sorted(view.states.items()))
    print(states or "empty")
    rows = [
        (
            device,
            client,
            str(number),
            f"{view.oldest_s.get(device, 0):.1f} s",
            "yes" if device in view.connected else "none",
        )
        for device, clients in view.waiting.items()
        for client, number in clients.items()
    ]
    if rows:
        head = ("device", "client", "waiting", "oldest of the device", "worker connected")
        print("\n".join(table(head, rows)))
    return 0
