"""What is stored of a synthetic task: one JSON line, from which every configuration is a `Task`.

The class is stored once; a configuration adds its ``get_inputs`` and two sets of sizes. Reading
records imports no torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.nearest import did_you_mean

Scale = Literal["lint", "full"]
Split = Literal["train", "validation", "test"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class StoredConfiguration(_Record):
    """One way to feed the task."""

    name: str
    """``base``, ``tail``, ``strided`` or ``extreme``."""
    inputs: str
    """Source of ``get_inputs``."""
    sizes: dict[Scale, dict[str, float | int]]
    """Module-level constants, small for the lint and full for a GPU."""
    note: str = ""
    """What is special about the inputs."""


class SynthTask(_Record):
    """One synthetic task."""

    name: str
    """``synth/SEED-NUMBER``."""
    model: str
    """Source of imports and class."""
    init_inputs: str
    """Source of ``get_init_inputs``."""
    configurations: tuple[StoredConfiguration, ...]
    """At least one; the first is the task itself."""
    difficulty: int
    """Primitive operators, 1 to 8."""
    category: str
    """Heaviest kind of work: ``attention``, ``convolution``, ``matmul``, ..."""
    family: str
    """Kind of input: ``rows``, ``sequence``, ``image``, ..."""
    operators: tuple[str, ...]
    """Primitive operators in the order they run."""
    graph: str
    """Hash of the operators as torch runs them and how they are connected."""
    split: Split
    """Decided by the set of operators."""

    def task(self, configuration: str = "base", scale: Scale = "full") -> Task:
        """One configuration as a task."""
        stored = {entry.name: entry for entry in self.configurations}
        if configuration not in stored:
            raise UsageError(
                f"{self.name} has no configuration {configuration!r}"
                f"{did_you_mean(configuration, stored)}",
                hint=f"one of {', '.join(stored)}",
            )
        entry = stored[configuration]
        constants = "\n".join(f"{name} = {value!r}" for name, value in entry.sizes[scale].items())
        parts = [self.model, constants, entry.inputs, self.init_inputs]
        return Task(
            name=f"{self.name}:{configuration}" if configuration != "base" else self.name,
            reference="\n\n\n".join(part.rstrip("\n") for part in parts if part.strip()) + "\n",
            origin="synth",
            labels={
                "difficulty": str(self.difficulty),
                "category": self.category,
                "family": self.family,
                "operators": " ".join(self.operators),
                "split": self.split,
                "configuration": configuration,
                "scale": scale,
            },
        )


def write_records(records: Iterable[SynthTask], path: Path) -> None:
    """All records into one JSONL file; what was there is replaced at the end, or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(record.model_dump_json() + "\n" for record in records)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read_records(path: Path) -> Iterator[SynthTask]:
    """Records of a JSONL file."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield SynthTask.model_validate(json.loads(line))
            except ValueError as error:
                raise UsageError(
                    f"{path}:{number} is no synthetic task: {str(error).splitlines()[0]}",
                    hint="kernelgym tasks synth --seed 1 --count 10 --out tasks.jsonl",
                ) from error
