"""``drkernel train``: reinforcement learning over several turns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from drkernel.cli import exit_codes
from drkernel.config import load
from drkernel.train.settings import TrainSettings

app = App(name="train", help_format="plaintext")


@app.default
def train(
    recipes: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    /,
    *,
    out: Path,
    check: Annotated[bool, Parameter(negative="")] = False,
    settings: Annotated[TrainSettings | None, Parameter(name="*")] = None,
) -> int:
    """Train a policy; the same command again goes on where it stopped.

    Parameters
    ----------
    recipes
        TOML files, e.g. configs/rl/nano.toml; later ones and flags win.
    out
        Folder of the run: configuration, metrics, episodes, checkpoints.
    check
        Only say whether everything is there: weights, memory, tasks.
    """
    merged = load(TrainSettings, recipes, settings)
    from drkernel.train.preflight import preflight

    found = preflight(merged)
    if check:
        sys.stdout.write(found.text() + "\n")
        return exit_codes.OK
    from drkernel.train.session import run_training

    run = run_training(merged, out, found)
    left = merged.steps - run.done
    said = f"{run.done} of {merged.steps} steps" + (f"; {left} left, run it again" if left else "")
    if run.best:
        said += (
            f"; best of {run.validations} validated checkpoints: step {run.best['step']:.0f}, "
            f"score {run.best['score']:.4f}"
        )
    sys.stdout.write(f"{out}: {said}\n")
    return exit_codes.OK
