"""The pipeline: tasks run, are new, keep clear of a benchmark, and do not depend on workers."""

import textwrap
from pathlib import Path

import pytest
import torch

from kernelgym.errors import TaskError, UsageError
from kernelgym.schema import Task
from kernelgym.tasks.lint import lint_task
from kernelgym.tasks.synth.compose import compose
from kernelgym.tasks.synth.contamination import (
    benchmark_files,
    joined,
    read_benchmark,
    tree_hash,
)
from kernelgym.tasks.synth.examine import examine, graph_of
from kernelgym.tasks.synth.generate import generate
from kernelgym.tasks.synth.graph import trace_graph
from kernelgym.tasks.synth.record import read_records, write_records

SEED = 5


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def module(forward: str, names: str = "x") -> str:
    body = textwrap.indent(textwrap.dedent(forward), " " * 8)
    return (
        "import torch\nimport torch.nn as nn\n\n"
        f"class Model(nn.Module):\n    def forward(self, {names}):\n{body}\n"
    )


INPUTS = "\ndef get_inputs():\n    return [torch.randn(4, 8)]\n"


def test_drafts_run_under_the_lint_and_at_full_size():
    drafts = [d for n in range(14) if (d := compose(SEED, n, range(1, 9)))]
    examined = [examine(draft) for draft in drafts]
    good = [found for found in examined if not found.reasons]
    assert len(good) >= 0.7 * len(drafts), [found.reasons for found in examined]
    for found in good:
        assert found.record.graph
        assert [entry.name for entry in found.record.configurations][:2] == ["base", "tail"]
        for entry in found.record.configurations:
            graph, operators = graph_of(found.record.task(entry.name, "full"))
            assert graph == found.record.graph
            assert operators


def test_generation_is_the_same_for_any_number_of_workers(tmp_path: Path):
    one = generate(SEED, 6, difficulties=range(1, 4), workers=0)
    two = generate(SEED, 6, difficulties=range(1, 4), workers=2)
    assert one.tasks == two.tasks
    assert one.refused == two.refused
    assert len(one.tasks) == 6
    assert len({task.graph for task in one.tasks}) == 6
    path = tmp_path / "tasks.jsonl"
    write_records(one.tasks, path)
    assert list(read_records(path)) == one.tasks


def test_a_record_file_that_is_damaged_is_named_with_its_line(tmp_path: Path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"name": "x"}\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"tasks\.jsonl:1 is no synthetic task"):
        list(read_records(path))


def test_an_unknown_configuration_is_named():
    draft = next(d for n in range(9) if (d := compose(SEED, n, range(1, 9))))
    with pytest.raises(UsageError, match="no configuration 'stridded'"):
        draft.record.task("stridded")


def test_a_graph_is_blind_to_names_sizes_and_views_but_not_to_wiring():
    first = module("y = torch.relu(x)\nreturn y + x") + INPUTS
    renamed = module("left = torch.relu(z)\nreturn z + left.view(-1).view_as(z)", "z") + INPUTS
    other = module("y = torch.relu(x)\nreturn y + y") + INPUTS
    graphs = [graph_of(Task(name="t", reference=source))[0] for source in (first, renamed, other)]
    assert graphs[0] == graphs[1] != graphs[2]


def test_in_place_operators_are_seen():
    class Plain(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x) * 2.0

    class InPlace(torch.nn.Module):
        def forward(self, x):
            y = x.clone()
            return y.relu_().mul_(2.0)

    value = torch.empty(3, device="meta")
    assert trace_graph(Plain(), [value])[0] == trace_graph(InPlace(), [value])[0]


def test_a_graph_that_takes_too_long_is_given_up_and_leaves_nothing_behind():
    class Loop(torch.nn.Module):
        def forward(self, x):
            while True:
                x = x + 1.0

    value = torch.empty(3, device="meta")
    with pytest.raises(TimeoutError):
        trace_graph(Loop(), [value], limit_s=0.05)
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_a_module_without_a_graph_is_a_fault_of_the_task():
    source = module("return x * float(x.sum())") + INPUTS
    with pytest.raises(TaskError, match="meta device"):
        graph_of(Task(name="t", reference=source))


def test_a_benchmark_is_recognised_by_tree_and_by_graph(tmp_path: Path):
    draft = next(d for n in range(30) if (d := compose(SEED, n, range(2, 4))))
    assert not examine(draft).reasons
    level = tmp_path / "level1"
    level.mkdir()
    source = draft.record.task().reference.replace("def forward(self, x", "def forward(self, data")
    (level / "1_Same.py").write_text(draft.record.task().reference, encoding="utf-8")
    (level / "2_Hopeless.py").write_text(
        module("return x * float(x.sum())") + INPUTS, encoding="utf-8"
    )
    (level / "notes.py").write_text("nothing = 1\n", encoding="utf-8")
    (level / "broken.py").write_text("def (", encoding="utf-8")
    files = benchmark_files(tmp_path)
    known = joined([read_benchmark(tmp_path, files[:1]), read_benchmark(tmp_path, files[1:])])
    assert known.files == 2
    assert known.without_graph == ("level1/2_Hopeless.py",)
    assert known.contains(tree_hash(draft.record.model), "other")
    assert known.contains("other", examine(draft).record.graph)
    assert not known.contains("other", "other")
    assert source
    with pytest.raises(UsageError, match="no such directory"):
        benchmark_files(tmp_path / "absent")


def test_contaminated_tasks_are_refused(tmp_path: Path):
    free = generate(SEED, 4, difficulties=range(1, 3), workers=0)
    for task in free.tasks[:2]:
        path = tmp_path / f"{task.name.replace('/', '-')}.py"
        path.write_text(task.task().reference, encoding="utf-8")
    clear = generate(SEED, 4, difficulties=range(1, 3), workers=0, benchmark=tmp_path)
    assert clear.refused["contaminated"] == 2
    assert {task.graph for task in clear.tasks}.isdisjoint(task.graph for task in free.tasks[:2])


def test_a_tree_is_blind_to_names_numbers_and_docstrings():
    first = module('"""Says something."""\nscaled = x * 2.0\nreturn torch.relu(scaled)')
    same = module("a = b * 3.0\nreturn torch.relu(a)", "b")
    other = module("a = b * 3.0\nreturn torch.tanh(a)", "b")
    assert tree_hash(first) == tree_hash(same) != tree_hash(other)
    assert tree_hash("x = 1") == ""


def test_a_task_with_a_dead_parameter_is_refused():
    source = (
        "import torch\nimport torch.nn as nn\n\n"
        "class Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.scale = nn.Parameter(torch.randn(8))\n"
        "        self.bias = nn.Parameter(torch.randn(8))\n"
        "    def forward(self, x):\n"
        "        return torch.softmax(x * self.scale + self.bias[:1], dim=-1)\n"
    ) + INPUTS
    found = lint_task(Task(name="t", reference=source))
    assert [finding.id for finding in found.findings] == ["parameter_ignored"]
    assert found.ok
