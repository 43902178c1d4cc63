"""``drkernel nano``: make the small policy from nothing."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from drkernel.cli import exit_codes
from drkernel.cli.options import Json, Recipes
from drkernel.config import load
from drkernel.nano.settings import NanoSettings

app = App(name="nano", help_format="plaintext")


@app.default
def nano(
    *,
    config: Recipes = (),
    out: Path = Path("runs/nano"),
    only_prepare: Annotated[bool, Parameter(negative="")] = False,
    as_it_is: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
    settings: Annotated[NanoSettings | None, Parameter(name="*")] = None,
) -> int:
    """Make nano: texts, tokenizer, training, export, a look at it; the same command goes on.

    Parameters
    ----------
    out
        Folder of everything; the finished model is in its ``model``.
    only_prepare
        Only texts, tokenizer and first weights, which need no GPU; the folder may then be moved.
    as_it_is
        Train no further: export the best checkpoint of a training that was cut off.
    """
    merged = load(NanoSettings, config, settings)
    from drkernel.train.models import require_training

    require_training()
    from drkernel.nano.recipe import Making, make, prepare
    from drkernel.train.run_folder import claimed

    deadline = math.inf if merged.minutes is None else time.monotonic() + 60 * merged.minutes
    with claimed(out, merged, "nano"):
        making = Making(merged, out, deadline, say=_say, as_it_is=as_it_is)
        (prepare if only_prepare else make)(making)
    path = out / "probe.json"
    counts = json.loads(path.read_text("utf-8")) if making.finished and path.exists() else {}
    if as_json:
        told = {"out": str(out), "finished": making.finished, "model": str(making.model)}
        sys.stdout.write(json.dumps({**told, "probe": counts}, indent=2) + "\n")
    elif making.finished:
        sys.stdout.write(f"{making.model}\n")
        for name, count in counts.items():
            sys.stdout.write(f"  {name.replace('_', ' ')} {count}\n")
    return exit_codes.OK


def _say(text: str) -> None:
    sys.stderr.write(f"nano: {text}\n")
    sys.stderr.flush()
