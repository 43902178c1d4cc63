"""What a run needs, checked in seconds and before anything large is loaded.

Weights in their folder, libraries, tasks, a device with room for the states, a sampler whose
log-probabilities are those of the policy. Not covered: whether the gym answers (the first
evaluation says so), and the memory of activations.
"""

from __future__ import annotations

from dataclasses import dataclass

from drkernel.train.models import (
    GIB,
    check_folder,
    check_memory,
    device_of,
    memory_needed,
    parameters_of,
    require_training,
)
from drkernel.train.problems import training_tasks, validation_tasks
from drkernel.train.settings import TrainSettings
from kernelgym.errors import UsageError
from kernelgym.schema import Task


@dataclass(frozen=True)
class Found:
    """Everything that was there."""

    tasks: list[Task]
    validation: list[Task]
    parameters: int
    device: str

    def facts(self) -> dict[str, int | str]:
        """For programs."""
        return {
            "parameters": self.parameters,
            "bytes_of_states": memory_needed(self.parameters),
            "device": self.device,
            "training_tasks": len(self.tasks),
            "validation_tasks": len(self.validation),
        }

    def text(self) -> str:
        """For people."""
        return (
            f"{self.parameters / 1e6:,.1f}M parameters, "
            f"{memory_needed(self.parameters) / GIB:.1f} GiB of weights, gradients and moments "
            f"on {self.device}; {len(self.tasks)} tasks to train on, "
            f"{len(self.validation)} to validate on"
        )


def preflight(settings: TrainSettings) -> Found:
    """Raise for the first thing that is missing; say what was found.

    Raises:
        UsageError: weights, libraries or tasks are missing, or settings contradict each other.
        ServiceError: the GPU is missing or too small.
    """
    _check_sampling(settings)
    folder = check_folder(settings.model.path, "train")
    require_training()
    tasks = training_tasks(settings.tasks)
    if len(tasks) < settings.algorithm.prompts:
        raise UsageError(
            f"{len(tasks)} tasks are fewer than the {settings.algorithm.prompts} prompts of a step",
            hint="--algorithm.prompts, or more tasks",
        )
    validation = validation_tasks(settings.tasks, tasks) if settings.eval_every else []
    device = device_of(settings.model.device)
    in_process = settings.policy.name == "transformers"
    check_memory(folder, device, sampler_in_process=in_process)
    return Found(tasks, validation, parameters_of(folder), str(device))


def _check_sampling(settings: TrainSettings) -> None:
    sampling = settings.episode.sampling
    if sampling.top_p < 1 or sampling.temperature == 0:
        raise UsageError(
            "training needs samples of the whole distribution: a policy's log-probabilities mean "
            f"something else at temperature {sampling.temperature} and top_p {sampling.top_p}",
            hint="--episode.sampling.temperature 1 --episode.sampling.top-p 1",
        )
    name = settings.policy.name
    if name != "transformers" and not name.startswith("openai:"):
        raise UsageError(
            f"policy {name!r} cannot be trained",
            hint="--policy.name transformers, or openai:MODEL for a server",
        )
    if name.startswith("openai:") and settings.policy.openai.token_ids != "require":
        raise UsageError(
            "training needs the sampled token ids and their log-probabilities",
            hint="--policy.openai.token-ids require",
        )
    if name.startswith("openai:") and settings.policy.openai.weights == "fixed":
        raise UsageError(
            "the server's weights would never change: samples would be of another policy",
            hint="--policy.openai.weights sglang",
        )
