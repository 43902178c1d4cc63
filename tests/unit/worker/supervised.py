"""A supervisor in a process of its own, for test_supervisor.py. Order as JSON in the argument."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from kernelgym.errors import ServiceError
from kernelgym.worker.supervisor import Program, Supervisor


def main() -> int:
    """Run the programs of the order; write down every end."""
    order = json.loads(sys.argv[1])
    ends = Path(order["ends"])

    def note(name: str, number: int) -> None:
        with ends.open("a") as file:
            file.write(f"{name} {number}\n")

    programs = [
        Program(
            name=one["name"],
            command=[sys.executable, "-c", one["code"]],
            stdin=lambda number: f"start {number}\n".encode(),
            beats_s=one.get("beats_s"),
            ended=lambda number, name=one["name"]: note(name, number),
            grace_s=one.get("grace_s", 5.0),
        )
        for one in order["programs"]
    ]
    supervisor = Supervisor(programs, spare=set)
    signal.signal(signal.SIGTERM, supervisor.stop)
    try:
        supervisor.run()
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
