"""``kernelgym tasks``: what there is to solve."""

from __future__ import annotations

import dataclasses
import json as json_module

from cyclopts import App

from kernelgym.cli.options import Json
from kernelgym.report.table import table
from kernelgym.tasks.registry import builtin_tasks

app = App(name="tasks", help="The tasks there are.", help_format="plaintext")
app.command("kernelgym.cli.tasks_synth:synth", name="synth", help="Make synthetic tasks.")
app.command("kernelgym.cli.tasks_import:import_tasks", name="import", help="Read tasks from files.")
app.command("kernelgym.cli.tasks_lint:lint", name="lint", help="Find tasks that accept nonsense.")


@app.command(name="list")
def list_tasks(*, json: Json = False) -> int:
    """List the built-in tasks.

    NAME:gpu is the same task with sizes for a GPU. A reference file (--reference) and a KernelBench
    checkout (--task level2/40 --root DIR) are tasks too.
    """
    tasks = builtin_tasks()
    if json:
        print(json_module.dumps([dataclasses.asdict(task) for task in tasks], indent=2))
        return 0
    rows = [(task.name, task.category, _sizes(task.sizes), task.summary) for task in tasks]
    print("\n".join(table(("task", "category", "sizes", "what it computes"), rows, width=140)))
    return 0


def _sizes(sizes: dict[str, int]) -> str:
    return " x ".join(map(str, sizes.values()))
