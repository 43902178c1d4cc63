"""The corpora: cheats, their honest twins, honest kernels. One mechanism a file.

A file begins with a docstring: one sentence, then ``key: value`` lines.

    id       ids of the catalogue of cheats, see docs/hacks.md
    task     a built-in task, or ``tasks/NAME`` for one of ours
    twin     file with the kernels that it builds on; the task's own by default, ``none`` for none
    expect   outcome, or ``outcome/code``; ``correct`` is neutralised, or honest
    finding  a finding that must be there (a cheat), or may be (honest kernels)
    probe    what catches it: the name of a probe, or ``trials``
    neutral  why a cheat that is ``correct`` gains nothing
    naive    weakness of the naive evaluator that pays it (`naive.py`)
    where    ``cpu`` or ``gpu`` for what makes sense on one of them only
    protocol ``strict``
    backend  ``triton`` by default; skipped where it is not installed
    targets  compute capabilities to compile for; none by default

Its source comes after the source of the twin, so what is left to read is the trick.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from kernelgym.schema import Submission, Task
from kernelgym.tasks.registry import builtin_task

HERE = Path(__file__).parent
HONEST = HERE.parent / "honest" / "kernels"


@dataclass(frozen=True)
class Case:
    """One candidate and what must come out."""

    name: str
    sentence: str
    source: str
    task_name: str
    twin: str
    outcome: str
    code: str = ""
    ids: tuple[str, ...] = ()
    fields: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def probe(self) -> str:
        return self.fields.get("probe", "")

    @property
    def finding(self) -> str:
        return self.fields.get("finding", "")

    @property
    def naive(self) -> str:
        return self.fields.get("naive", "default")

    @property
    def backend(self) -> str:
        return self.fields.get("backend", "triton")

    def runs_on(self, device: str) -> bool:
        where = self.fields.get("where", "") in ("", "cpu" if device == "cpu" else "gpu")
        return where and find_spec(self.backend) is not None

    def task(self, device: str = "cpu") -> Task:
        if self.task_name.startswith("tasks/"):
            reference = (HERE / f"{self.task_name}.py").read_text()
            return Task(name=self.task_name, reference=reference, origin="test")
        return builtin_task(f"builtin/{self.task_name}{'' if device == 'cpu' else ':gpu'}")

    def submission(self, device: str = "cpu", **options: object) -> Submission:
        base: dict[str, object] = {
            "task": self.task(device),
            "source": self.source,
            "backend": self.backend,
            "targets": tuple(map(int, self.fields.get("targets", "").split())),
            "trials": 2,
            "protocol": self.fields.get("protocol", "standard"),
            "memory_mb": 16_384 if device != "cpu" else 4096,
        }
        return Submission.model_validate(base | options)


def cheats() -> list[Case]:
    return [_read(path) for path in sorted((HERE / "cheats").glob("*.py"))]


def twins() -> list[Case]:
    return [_twin(path) for path in sorted((HERE / "twins").glob("*.py"))]


def honest() -> list[Case]:
    return [_read(path) for path in sorted(HONEST.glob("*.py"))]


def twin_of(case: Case) -> Case:
    return _twin(HERE / "twins" / f"{case.twin}.py")


def _twin(path: Path) -> Case:
    source = path.read_text()
    sentence = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return Case(f"twin_{path.stem}", sentence, source, path.stem, path.stem, "correct")


def _read(path: Path) -> Case:
    own = path.read_text()
    sentence, _, rest = (ast.get_docstring(ast.parse(own)) or "").partition("\n")
    pairs = (line.partition(":") for line in rest.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, _, value in pairs}
    task = fields.pop("task")
    twin = fields.pop("twin", task)
    outcome, _, code = fields.pop("expect", "correct").partition("/")
    ids = tuple(fields.pop("id", "").split())
    source = own
    if twin != "none":
        source = (HERE / "twins" / f"{twin}.py").read_text() + "\n\n" + own
    return Case(path.stem, sentence, source, task, twin, outcome, code, ids, fields)
