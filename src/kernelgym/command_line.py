"""How a command line of ours runs and ends: `kernelgym` and `drkernel` share it.

Results go to stdout, everything else to stderr. Errors become words, the next command to try, and
an exit code; what the codes of a candidate's verdict are is each program's own business
(``exit_codes`` of its ``cli``). Imports no torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from pydantic import ValidationError

from kernelgym.errors import KernelGymError, UsageError

OK = 0
"""The command did what it should."""
USAGE = 2
"""The command line or a file it names is at fault."""
SERVICE = 3
"""The gym, the machine, a GPU or a server is at fault."""
INTERRUPTED = 130
"""Stopped by the user."""


def run_command(app: App, tokens: Sequence[str], program: str) -> int:
    """Run one command line of ``program``; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not cost the result.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        code = app(
            list(tokens), exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except CycloptsError as error:
        verb = " ".join((program, *(error.command_chain or ())))
        return _fail(_in_words(error), f"{verb} --help", USAGE)
    except KernelGymError as error:
        if isinstance(error, UsageError):
            return _fail(str(error), error.hint or f"{program} --help", USAGE)
        return _fail(str(error), error.hint or "kernelgym doctor", SERVICE)
    except KeyboardInterrupt as stop:
        return _fail("interrupted", str(stop), INTERRUPTED)
    except BrokenPipeError:
        # Whoever read stdout has left; give the interpreter something to flush into at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def _in_words(error: CycloptsError) -> str:
    """What is wrong with the options; of values that pydantic refused, each by its flag."""
    refused = error.__cause__
    if not isinstance(refused, ValidationError):
        return str(error)
    return "; ".join(
        f"--{'.'.join(str(part).replace('_', '-') for part in one['loc'])}: "
        f"{one['msg'][:1].lower()}{one['msg'][1:]}, not {one['input']!r}"
        for one in refused.errors(include_url=False)
    )


def _fail(message: str, hint: str, code: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    if hint:
        sys.stderr.write(f"  try: {hint}\n")
    return code
