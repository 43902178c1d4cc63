"""An evaluation as it lies on disk: configuration, tasks, episodes, arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drkernel.config import load
from drkernel.evaluate.arrays import Arrays, arrays_of
from drkernel.evaluate.settings import EvalSettings
from drkernel.rollout.directory import no_run, read_tasks
from drkernel.rollout.log import read_episodes
from drkernel.types import Episode
from kernelgym.errors import UsageError
from kernelgym.schema import Task


@dataclass(frozen=True)
class StoredEvaluation:
    """A run that ``drkernel eval`` has written."""

    name: str
    path: Path
    digest: str
    settings: EvalSettings
    tasks: dict[str, Task]
    episodes: list[Episode]

    @property
    def policy(self) -> str:
        """Name of the policy."""
        return self.episodes[0].policy if self.episodes else self.settings.policy.name

    def arrays(self) -> Arrays:
        """The run laid out."""
        return arrays_of(
            self.episodes,
            list(self.tasks),
            samples=self.settings.samples,
            turns=self.settings.episode.turns,
        )


def kind_of(path: Path, *, verb: str = "report") -> tuple[str, str]:
    """Verb and digest of a run directory; raises `UsageError` where there is none.

    ``verb``: what is asked of it, for the error.
    """
    try:
        kind, _, digest = (path / "config.digest").read_text().strip().partition(" ")
    except OSError as error:
        raise no_run(path, verb) from error
    return kind, digest


def read_evaluation(path: Path, *, verb: str = "report") -> StoredEvaluation:
    """Read a run; raises `UsageError` for another kind of run."""
    kind, digest = kind_of(path, verb=verb)
    if kind != "eval":
        raise UsageError(
            f"{path} is a run of drkernel {kind}, not of drkernel eval",
            hint=f"drkernel report {path}",
        )
    return StoredEvaluation(
        name=path.name or str(path),
        path=path,
        digest=digest,
        settings=load(EvalSettings, [path / "config.json"]),
        tasks=read_tasks(path),
        episodes=read_episodes(path / "episodes.jsonl"),
    )
