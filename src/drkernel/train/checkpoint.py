"""Whole training states on disk: either all of one is there, or nothing.

    checkpoints/step-000020/model/       weights (float32), configuration, tokenizer: a model folder
                            training.pt  optimizer, random states
                            state.json   step, data position, counters, digest of the configuration

A checkpoint is written beside its place, synced, and renamed; killed at any moment it leaves the
one before it as the latest. Loading runs no code from the file (``weights_only``).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelgym.errors import UsageError

_PREFIX = "step-"
_DRAFT = ".draft-"


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint."""

    folder: Path
    step: int

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.folder / "model"

    def state(self) -> dict[str, Any]:
        """``state.json``."""
        state: dict[str, Any] = json.loads((self.folder / "state.json").read_text("utf-8"))
        return state

    def tensors(self) -> dict[str, Any]:
        """``training.pt``, on the CPU."""
        import torch

        loaded: dict[str, Any] = torch.load(
            self.folder / "training.pt", map_location="cpu", weights_only=True
        )
        return loaded


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        """``keep``: newest ones that stay; those named in `save` ``protect`` stay anyway."""
        self.folder, self.keep = folder, keep

    def all(self) -> list[Checkpoint]:
        """Complete ones, oldest first."""
        found = []
        for path in self.folder.glob(f"{_PREFIX}*") if self.folder.is_dir() else ():
            number = path.name.removeprefix(_PREFIX)
            if number.isdecimal() and (path / "state.json").is_file():
                found.append(Checkpoint(path, int(number)))
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    def latest(self) -> Checkpoint | None:
        """The newest one."""
        found = self.all()
        return found[-1] if found else None

    def at(self, step: int) -> Checkpoint:
        """The one of this step."""
        for checkpoint in self.all():
            if checkpoint.step == step:
                return checkpoint
        steps = ", ".join(str(checkpoint.step) for checkpoint in self.all()) or "none"
        raise UsageError(f"{self.folder} has no checkpoint of step {step}; there are: {steps}")

    def save(
        self,
        step: int,
        *,
        model: Any,
        tokenizer: Any,
        tensors: Mapping[str, Any],
        state: Mapping[str, Any],
        protect: frozenset[int] = frozenset(),
    ) -> Checkpoint:
        """Write one, then remove old ones; an existing one of this step is kept as it is.

        ``tensors`` and ``state`` get the random states and the step added.
        """
        import torch

        place = self.folder / f"{_PREFIX}{step:06d}"
        if place.exists():
            return Checkpoint(place, step)
        draft = self.folder / f"{_DRAFT}{step:06d}"
        shutil.rmtree(draft, ignore_errors=True)
        (draft / "model").mkdir(parents=True)
        model.save_pretrained(draft / "model")
        tokenizer.save_pretrained(draft / "model")
        torch.save({**tensors, "random": random_states()}, draft / "training.pt")
        (draft / "state.json").write_text(
            json.dumps({**state, "step": step}, indent=1, sort_keys=True), "utf-8"
        )
        _sync_tree(draft)
        draft.rename(place)
        _sync(self.folder)
        self._prune(protect | {step})
        return Checkpoint(place, step)

    def _prune(self, protect: frozenset[int]) -> None:
        for checkpoint in self.all()[: -self.keep] if self.keep else ():
            if checkpoint.step not in protect:
                # renamed first: half a checkpoint must not look like a whole one
                doomed = self.folder / f"{_DRAFT}{checkpoint.step:06d}-old"
                shutil.rmtree(doomed, ignore_errors=True)
                checkpoint.folder.rename(doomed)
                shutil.rmtree(doomed)


def random_states() -> dict[str, Any]:
    """torch's generators; everything else here draws from seeds of its own."""
    import torch

    states: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_random(states: Mapping[str, Any]) -> None:
    """Set torch's generators; GPU states are ignored where their number differs."""
    import torch

    torch.set_rng_state(states["cpu"])
    if torch.cuda.is_available() and len(states.get("cuda", ())) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(states["cuda"])


def load_weights(model: Any, folder: Path) -> None:
    """Put the weights of a model folder into ``model``."""
    from safetensors.torch import load_file

    state: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        state |= load_file(path)
    missing, unexpected = model.load_state_dict(state, strict=False)
    # a tied output layer is stored once
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    if unexpected or set(missing) - tied:
        raise UsageError(
            f"the weights in {folder} belong to another model: {missing[:3]} are missing"
        )
    model.tie_weights()


def _sync_tree(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
