"""One call of ``drkernel train``: opens policy and gym, runs the loop, closes them.

The gym is wrapped twice: by the store of evaluations that runs may share, and, only where the
configuration says so, by `drkernel.train.unchecked`.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

from drkernel.policy import open_policy
from drkernel.rollout.directory import RunDirectory
from drkernel.rollout.evaluator import Evaluator, open_evaluator
from drkernel.rollout.settings import GymSettings
from drkernel.train.loop import train
from drkernel.train.models import load_model
from drkernel.train.preflight import Found
from drkernel.train.run_folder import claimed
from drkernel.train.run_state import TrainRun, begin, deadline
from drkernel.train.settings import TrainSettings
from drkernel.train.store import EvaluationStore, StoredEvaluator
from drkernel.train.unchecked import UncheckedEvaluator
from drkernel.types import Policy


def run_training(settings: TrainSettings, out: Path, found: Found) -> TrainRun:
    """Train in ``out``, from the beginning or from its last checkpoint."""
    with claimed(out, settings, "train") as directory:
        return asyncio.run(_session(settings, directory, found))


async def _session(settings: TrainSettings, directory: RunDirectory, found: Found) -> TrainRun:
    out = directory.path
    directory.store_tasks([*found.tasks, *found.validation])
    loaded = load_model(settings.model, what="train")
    policy = policy_of(settings)
    store = EvaluationStore(Path(settings.store) if settings.store else out / "evaluations.db")
    try:
        async with open_evaluator(settings.gym, policy) as gym:
            run = begin(
                settings,
                out,
                loaded=loaded,
                policy=policy,
                evaluator=wrapped(gym, settings, store),
                tasks=found.tasks,
                validation=found.validation,
            )
            _stop_on_signals(run)
            deadline(run, settings.minutes)
            await train(run)
            return run
    finally:
        store.close()
        await policy.aclose()


def policy_of(settings: TrainSettings) -> Policy:
    """What answers: the trained model's own folder, where the settings name no other."""
    named = settings.policy
    if named.name == "transformers":
        named = named.model_copy(update={"name": f"transformers:{settings.model.path}"})
    return open_policy(named)


def wrapped(gym: Evaluator, settings: TrainSettings, store: EvaluationStore) -> Evaluator:
    """The gym behind the store; without hack checks where the settings say so."""
    stored = StoredEvaluator(gym, store, device=device_name(settings.gym))
    return stored if settings.algorithm.hack_check else UncheckedEvaluator(stored)


def device_name(gym: GymSettings) -> str:
    """What judges, as far as it can be told: a stored timing belongs to its GPU."""
    with suppress(ImportError):
        import torch

        here = gym.server in ("here", "auto") and gym.device != "cpu"
        if here and torch.cuda.is_available():
            return torch.cuda.get_device_name(0)
    return f"{gym.server} {gym.device}"


def _stop_on_signals(run: TrainRun) -> None:
    """SIGTERM and Ctrl-C end the run between two turns; nothing that was played is lost."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(ValueError, NotImplementedError):  # only the main thread may
            loop.add_signal_handler(number, run.stop.set)
