"""Entry point of ``kernelgym``: finds the verb and runs it (`kernelgym.command_line`).

Results go to stdout, everything else to stderr. Exit codes: 0 accepted, 1 the candidate failed,
2 usage, 3 the service, a GPU or the machine failed. Importing this module, and ``--help``, import
no torch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App

from kernelgym import __version__
from kernelgym.command_line import run_command

_HELP = """Judge generated GPU kernels: correctness, hacks, speed, profile.

Exit codes: 0 accepted, 1 the candidate failed, 2 usage, 3 the service or a GPU failed.
"""

app = App(
    name="kernelgym",
    help=_HELP,
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
app.command("kernelgym.cli.evaluate:evaluate", name="eval", help="Judge one candidate on one task.")
app.command("kernelgym.cli.up:up", name="up", help="Run a whole gym on this machine.")
app.command("kernelgym.cli.serve:serve", name="serve", help="Run the gym's server.")
app.command("kernelgym.cli.worker:worker", name="worker", help="Judge for a gym.")
app.command("kernelgym.cli.submit:submit", name="submit", help="Judge candidates in a gym.")
app.command("kernelgym.cli.bench:bench", name="bench", help="Judge a directory of candidates.")
app.command("kernelgym.cli.watch:watch", name="watch", help="Follow evaluations in a gym.")
app.command("kernelgym.cli.queue:queue", name="queue", help="Show a gym's queue.")
app.command("kernelgym.cli.workers:workers", name="workers", help="Show a gym's workers.")
app.command("kernelgym.cli.doctor:doctor", name="doctor", help="Say what this machine can do.")
app.command("kernelgym.cli.hacks:hacks", name="hacks", help="What the judge looks for.")
app.command("kernelgym.cli.tasks:app", name="tasks", help="The tasks there are.")


def run() -> None:
    """What the installed script calls."""
    sys.exit(main(sys.argv[1:]))


def main(tokens: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    return run_command(app, tokens, "kernelgym")
