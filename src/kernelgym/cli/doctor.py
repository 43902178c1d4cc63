"""``kernelgym doctor``: what this machine can do, what it lacks, and how to mend it."""

from __future__ import annotations

import dataclasses
import json as json_module

from kernelgym.cli import exit_codes
from kernelgym.cli.checks import Check, machine_checks
from kernelgym.cli.options import Json
from kernelgym.cli.probing import probe_checks
from kernelgym.cli.screen import print_lines, working

_TONES = {"ok": "ok", "warning": "note", "failed": "bad"}


def doctor(*, json: Json = False) -> int:
    """Say what this machine can do, with a fix beside everything that is missing.

    The output can be pasted into a bug report. Exit code 3 when something needed is missing.
    """
    with working("looking at this machine"):
        checks = machine_checks() + probe_checks()
    failed = any(check.status == "failed" for check in checks)
    if json:
        record = {"ok": not failed, "checks": [dataclasses.asdict(check) for check in checks]}
        print(json_module.dumps(record, indent=2))
    else:
        print_lines(lines_of(checks))
    return exit_codes.SERVICE if failed else exit_codes.OK


def lines_of(checks: list[Check]) -> list[tuple[str, str]]:
    """The checks as lines, each with its tone."""
    name = max(len(check.name) for check in checks)
    status = max(len(check.status) for check in checks)
    lines = []
    for check in checks:
        tone = _TONES[check.status]
        lines.append((f"{check.name:<{name}}  {check.status:<{status}}  {check.found}", tone))
        if check.fix and check.status != "ok":
            lines.append((f"{'':<{name}}  {'':<{status}}  fix: {check.fix}", tone))
    return lines
