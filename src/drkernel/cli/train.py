"""``drkernel train``: reinforcement learning over several turns."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from drkernel.cli import exit_codes
from drkernel.cli.options import Json, Recipes
from drkernel.config import load
from drkernel.train.settings import TrainSettings

app = App(name="train", help_format="plaintext")


@app.default
def train(
    *,
    config: Recipes = (),
    out: Path,
    check: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
    settings: Annotated[TrainSettings | None, Parameter(name="*")] = None,
) -> int:
    """Train a policy, e.g. -c configs/rl/nano.toml; the same command goes on with it.

    Parameters
    ----------
    out
        Folder of the run: configuration, metrics, episodes, checkpoints.
    check
        Only say whether everything is there: weights, memory, tasks.
    """
    merged = load(TrainSettings, config, settings)
    from drkernel.train.preflight import preflight

    found = preflight(merged)
    if check:
        sys.stdout.write((json.dumps(found.facts(), indent=2) if as_json else found.text()) + "\n")
        return exit_codes.OK
    from drkernel.train.session import run_training

    run = run_training(merged, out, found)
    if as_json:
        done = {"out": str(out), "step": run.done, "steps": merged.steps, "best_step": run.best}
        sys.stdout.write(json.dumps({**done, "scores": run.scores}, indent=2) + "\n")
        return exit_codes.OK
    left = merged.steps - run.done
    said = f"{run.done} of {merged.steps} steps" + (f"; {left} left, run it again" if left else "")
    if run.best is not None:
        said += (
            f"; best of {len(run.scores)} validated checkpoints: step {run.best}, "
            f"score {run.scores[run.best]:.4f}"
        )
    sys.stdout.write(f"{out}: {said}\n")
    return exit_codes.OK
