"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Recipes = Annotated[
    tuple[Path, ...],
    Parameter(
        name=["--config", "-c"],
        negative="",
        consume_multiple=False,
        help="Recipe (TOML, or a run's config.json); later ones win, flags win over all.",
    ),
]
Resume = Annotated[
    bool, Parameter(negative="", help="Go on with the run in --out; nothing finished is repeated.")
]
Quiet = Annotated[bool, Parameter(negative="", help="No progress on stderr.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, for programs.")]
ShowConfig = Annotated[
    bool,
    Parameter(
        name="--show-config",
        negative="",
        help="Print the configuration that recipes and flags make, and do nothing.",
    ),
]
