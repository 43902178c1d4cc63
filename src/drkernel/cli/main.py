"""Entry point of ``drkernel``: finds the verb, runs it, turns errors into words and exit codes.

Results go to stdout, everything else to stderr. Importing this module, and ``--help``, import no
torch. Verbs are named here and imported when they are called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from drkernel import __version__
from drkernel.cli import exit_codes
from kernelgym.errors import KernelGymError, UsageError

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
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not cost the result.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        code = app(
            list(tokens), exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else exit_codes.OK
    except CycloptsError as error:
        verb = " ".join(error.command_chain or ())
        return _fail(str(error), f"drkernel {verb} --help".replace("  ", " "), exit_codes.USAGE)
    except KernelGymError as error:
        code = exit_codes.USAGE if isinstance(error, UsageError) else exit_codes.SERVICE
        return _fail(str(error), error.hint or "kernelgym doctor", code)
    except KeyboardInterrupt as stop:
        return _fail("interrupted", str(stop), exit_codes.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read stdout has left; give the interpreter something to flush into at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.OK


def _fail(message: str, hint: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"  try: {hint}", file=sys.stderr)
    return code
