"""Entry point of ``kernelgym``: finds the verb, runs it, turns errors into words and exit codes.

Results go to stdout, everything else to stderr. Exit codes: 0 accepted, 1 the candidate failed,
2 usage, 3 the service, a GPU or the machine failed. Importing this module, and ``--help``, import
no torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from kernelgym import __version__
from kernelgym.cli import exit_codes
from kernelgym.errors import KernelGymError, UsageError

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
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not cost the verdict.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        code = app(
            list(tokens), exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else exit_codes.OK
    except CycloptsError as error:
        verb = " ".join(error.command_chain or ())
        return _fail(str(error), f"kernelgym {verb} --help".replace("  ", " "), exit_codes.USAGE)
    except KernelGymError as error:
        code = exit_codes.USAGE if isinstance(error, UsageError) else exit_codes.SERVICE
        return _fail(str(error), error.hint or "kernelgym doctor", code)
    except KeyboardInterrupt:
        return _fail("interrupted", "", 130)
    except BrokenPipeError:
        # Whoever read stdout has left; give the interpreter something to flush into at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.OK


def _fail(message: str, hint: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"  try: {hint}", file=sys.stderr)
    return code
