"""``drkernel sft``: supervised fine-tuning on multi-turn conversations."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from drkernel.cli import exit_codes
from drkernel.cli.options import Json, Recipes
from drkernel.config import load
from drkernel.sft.settings import SftSettings

app = App(name="sft", help_format="plaintext")


@app.default
def sft(
    *,
    config: Recipes = (),
    out: Path,
    as_json: Json = False,
    settings: Annotated[SftSettings | None, Parameter(name="*")] = None,
) -> int:
    """Fine-tune on trajectories, e.g. -c configs/sft/paper.toml; the same command goes on with it.

    Parameters
    ----------
    out
        Folder of the run: configuration, metrics, checkpoints.
    """
    merged = load(SftSettings, config, settings)
    from drkernel.train.models import check_folder, require_training

    check_folder(merged.model.path, "sft")
    require_training()
    from drkernel.sft.loop import run_sft

    run = run_sft(merged, out)
    if as_json:
        done = {"out": str(out), "step": run.step, "steps": run.steps, "finished": run.finished}
        sys.stdout.write(json.dumps({**done, "best": run.best or None}, indent=2) + "\n")
        return exit_codes.OK
    left = run.steps - run.step
    said = f"{run.step} of {run.steps} steps"
    if left:
        said += "; its time is over" if run.finished else f"; {left} left, run it again"
    if run.best:
        said += f"; lowest evaluation loss {run.best['loss']:.4f} at step {run.best['step']}"
    sys.stdout.write(f"{out}: {said}\n")
    return exit_codes.OK
