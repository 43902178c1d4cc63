"""What verbs that play episodes share: their options, and how a run ends on a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from drkernel.cli import exit_codes
from drkernel.cli.options import Json, Quiet, Recipes, Resume, ShowConfig
from drkernel.config import Section, load
from drkernel.report.tables import Table
from kernelgym.errors import ServiceError

S = TypeVar("S", bound=Section)


class Numbers(Protocol):
    """The numbers of a run."""

    @property
    def failed(self) -> bool:
        """Whether the policy or the gym failed everything."""

    def model_dump_json(self, *, indent: int | None = None) -> str:
        """All of it."""


R = TypeVar("R", bound=Numbers)


@dataclass(frozen=True)
class Playing:
    """Options of a verb that plays episodes into a directory."""

    config: Recipes = ()
    resume: Resume = False
    quiet: Quiet = False
    json: Json = False
    show_config: ShowConfig = False

    def settings(self, kind: type[S], flags: Section) -> S | None:
        """Recipes and flags together; None when they were only to be shown."""
        found = load(kind, self.config, flags)
        if self.show_config:
            print(found.model_dump_json(indent=2))
            return None
        return found

    def end(self, out: Path, run: Awaitable[R], tables_of: Callable[[R], Sequence[Table]]) -> int:
        """Run it, and print its tables or its summary."""

        async def wait() -> R:
            return await run

        summary = asyncio.run(wait())
        show(summary, tables_of(summary), out, json=self.json)
        if summary.failed:
            raise ServiceError(
                "the policy or the gym failed every sample",
                hint=f"drkernel inspect {out} shows how; then the same with --resume",
            )
        return exit_codes.OK


def show(summary: Numbers, tables: Sequence[Table], out: Path, *, json: bool) -> None:
    """A run that is over: its tables, or its summary for programs."""
    if json:
        print(summary.model_dump_json(indent=2))
        return
    print("\n".join(table.text() for table in tables))
    print(f"wrote {out / 'report.html'}, {out / 'table.md'}, {out / 'table.csv'}")
