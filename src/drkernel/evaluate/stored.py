"""An evaluation as it lies on disk: configuration, tasks, episodes, arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drkernel.config import load
from drkernel.evaluate.arrays import Arrays, arrays_of
from drkernel.evaluate.settings import EvalSettings
from drkernel.rollout.directory import read_tasks
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


def kind_of(path: Path) -> tuple[str, str]:
    """Verb and digest of a run directory; raises `UsageError` where there is none."""
    try:
        kind, _, digest = (path / "config.digest").read_text().strip().partition(" ")
    except OSError as error:
        raise UsageError(
            f"{path} holds no run: it has no config.digest", hint=f"ls {path}"
        ) from error
    return kind, digest


def read_evaluation(path: Path) -> StoredEvaluation:
    """Read a run; raises `UsageError` for another kind of run."""
    kind, digest = kind_of(path)
    if kind != "eval":
        raise UsageError(f"{path} is a run of drkernel {kind}, not of drkernel eval")
    return StoredEvaluation(
        name=path.name or str(path),
        path=path,
        digest=digest,
        settings=load(EvalSettings, [path / "config.json"]),
        tasks=read_tasks(path),
        episodes=read_episodes(path / "episodes.jsonl"),
    )
