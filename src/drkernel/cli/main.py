"""Entry point of ``drkernel``: finds the verb and runs it (`kernelgym.command_line`).

Results go to stdout, everything else to stderr. Importing this module, and ``--help``, import no
torch. Verbs are named here and imported when they are called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App

from drkernel import __version__
from kernelgym.command_line import run_command

_HELP = """Propose, evaluate, refine: data, training, evaluation and scaling of kernel writers.

Exit codes: 0 done, 1 nothing worth keeping was found, 2 usage, 3 the gym or a server failed.
"""

app = App(
    name="drkernel",
    help=_HELP,
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
_VERBS = (
    ("collect", "collect:collect", "Record a teacher's multi-turn trajectories."),
    ("sft", "sft:app", "Fine-tune on trajectories."),
    ("train", "train:app", "Reinforcement learning over several turns."),
    ("nano", "nano:app", "Make the small policy from nothing."),
    ("eval", "evaluate:evaluate", "Measure a policy on a suite of tasks."),
    ("scale", "scale:scale", "Sequential test-time scaling."),
    ("optimize", "optimize:optimize", "Look for a faster kernel for one module."),
    ("compare", "compare:compare", "Compare evaluated runs, task by task."),
    ("report", "report:report", "Write a run's tables, figures and page again."),
    ("inspect", "inspect:inspect", "Show an episode turn by turn."),
)
for _name, _where, _help in _VERBS:
    app.command(f"drkernel.cli.{_where}", name=_name, help=_help)


def run() -> None:
    """What the installed script calls."""
    sys.exit(main(sys.argv[1:]))


def main(tokens: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    return run_command(app, tokens, "drkernel")
