"""The scripted teacher: what it reads, what it writes, how it reacts. Real judging is in e2e."""

from __future__ import annotations

import ast
import random

import pytest
from made import answer, task, turn, verdict

from drkernel import prompts
from drkernel.collect.teacher import flaws
from drkernel.collect.teacher.grouping import group_steps
from drkernel.collect.teacher.policy import ScriptedTeacher, TeacherSettings, verdict_of
from drkernel.collect.teacher.reading import read_reference
from drkernel.collect.teacher.writing import Plan, read_plan, write_decoy, write_module
from drkernel.types import Message, Sampling
from kernelgym.schema import Task
from kernelgym.tasks.registry import builtin_task, builtin_tasks
from kernelgym.tasks.synth.compose import compose

GATED = '''
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A linear layer, GELU, a learned scale, softmax and a residual connection."""

    def __init__(self, features, slope):
        super().__init__()
        self.fc = nn.Linear(features, features)
        self.scale = nn.Parameter(torch.randn(features))
        self.slope = slope

    def forward(self, x, other):
        y = F.gelu(self.fc(x)) * self.scale
        y = F.leaky_relu(y, self.slope)
        y = torch.softmax(y + other, dim=-1)
        return y.cumsum(dim=-1) - x


def get_inputs():
    return [torch.randn(4, 8), torch.randn(4, 8)]


def get_init_inputs():
    return [8, 0.1]
'''


def test_a_reference_becomes_steps_with_meanings() -> None:
    reference = read_reference(GATED)
    assert reference is not None
    names = [step.meaning.name if step.meaning else step.text for step in reference.steps]
    assert names == [
        "linear", "gelu", "mul", "leaky_relu", "add", "softmax", "v6.cumsum(dim=-1)", "sub",
    ]  # fmt: skip
    assert reference.columns == {"self.scale"}
    assert reference.steps[3].meaning is not None
    assert reference.steps[3].meaning.numbers == ("self.slope",)


@pytest.mark.parametrize(
    ("level", "shapes"),
    [
        (0, ["torch", "torch", "flat", "torch", "torch", "torch", "torch", "torch"]),
        (1, ["torch", "flat", "flat", "flat", "flat", "row", "torch", "flat"]),
        (2, ["torch", "row", "torch", "flat"]),
        (3, ["matmul", "row", "torch", "flat"]),
    ],
)
def test_levels_fuse_more(level: int, shapes: list[str]) -> None:
    reference = read_reference(GATED)
    assert reference is not None
    assert [group.shape for group in group_steps(reference, level, chosen=1)] == shapes


POOLED = """
class Model(nn.Module):
    def forward(self, x):
        x = torch.softmax(torch.relu(x), dim=1)
        return torch.sum(x * 2.0, dim=1)


def get_inputs():
    return [torch.randn(2, 3, 4)]
"""


@pytest.mark.parametrize("language", ["triton", "numba"])
def test_other_dimensions_are_moved_to_the_end_and_back(language: str) -> None:
    reference = read_reference(POOLED)
    assert reference is not None
    groups = group_steps(reference, 2)
    assert [(group.shape, group.axis) for group in groups] == [
        ("flat", ""), ("row", "1"), ("flat", ""), ("row", "1"),
    ]  # fmt: skip
    source = write_module(reference, Plan(level=2), language)  # type: ignore[arg-type]
    assert source.count(".movedim(1, -1)") == 2
    assert source.count(".movedim(-1, 1)") == 1  # a sum takes the dimension away


@pytest.mark.parametrize(
    "forward",
    ["if x.sum() > 0:\n            x = -x\n        return x", "return [v for v in x]"],
)
def test_control_flow_is_not_followed(forward: str) -> None:
    source = f"class Model:\n    def forward(self, x):\n        {forward}\n"
    assert read_reference(source) is None


@pytest.mark.parametrize("language", ["triton", "numba"])
def test_every_task_gets_modules_that_parse_and_are_short(language: str) -> None:
    tasks = [builtin_task(one.name) for one in builtin_tasks()]
    drafts = [compose(7, number, range(1, 6)) for number in range(60)]
    tasks += [draft.record.task("base", "lint") for draft in drafts if draft is not None]
    understood = 0
    for one in tasks:
        reference = read_reference(one.reference)
        if reference is None:
            continue
        understood += 1
        for level in range(4):
            source = write_module(reference, Plan(level=level), language)  # type: ignore[arg-type]
            ast.parse(source)
            assert read_plan(source) == Plan(level=level)
            assert len(source.splitlines()) < 260
        ast.parse(write_decoy(reference, Plan(), language))  # type: ignore[arg-type]
    assert understood > 0.75 * len(tasks)


def test_flaws_change_the_source_and_keep_it_readable() -> None:
    reference = read_reference(GATED)
    assert reference is not None
    for level in range(4):
        sound = write_module(reference, Plan(level=level), "triton")
        for spoil in (flaws.wrong, flaws.broken):
            spoilt = spoil(sound, random.Random(3))
            assert spoilt != sound
            ast.parse(spoilt)
    decoy = write_decoy(reference, Plan(), "triton")
    assert "scratch = " in decoy
    assert "torch.softmax" in decoy


def _conversation(problem: Task, said: str, code: str, outcome: str) -> list[Message]:
    first = prompts.first_turn(problem)
    played = turn(0, verdict(outcome), code=code)
    told = prompts.feedback(played.result, played.extraction)
    played = played.model_copy(update={"feedback": told, "generation": played.generation.model_copy(
        update={"text": f"{said}\n{answer(code)}"})})  # fmt: skip
    return [*first, *prompts.refinement(problem, [played], [0])[1:]]


def test_it_reacts_to_what_is_said() -> None:
    problem = Task(name="gated", reference=GATED)
    teacher = ScriptedTeacher(TeacherSettings(relapse=0, repair=1))
    reference = read_reference(GATED)
    assert reference is not None
    plan = Plan(level=2)
    sound = write_module(reference, plan, "triton")
    wrong = flaws.wrong(sound, random.Random(1))
    repaired = teacher.answer(_conversation(problem, "", wrong, "mismatch"), "s")
    assert prompts.extract(repaired).code == sound
    simpler = prompts.extract(teacher.answer(_conversation(problem, "", sound, "mismatch"), "s"))
    assert read_plan(simpler.code or "") == Plan(level=1, chosen=1, block=256)
    more = prompts.extract(teacher.answer(_conversation(problem, "", sound, "correct"), "s"))
    assert read_plan(more.code or "") == Plan(level=3)
    decoy = write_decoy(reference, plan, "triton")
    honest = prompts.extract(teacher.answer(_conversation(problem, "", decoy, "hack"), "s"))
    assert honest.code == sound


def test_the_words_of_every_outcome_are_understood() -> None:
    expected = {"correct": "correct", "hack": "hack", "mismatch": "failed", "crash": "failed"}
    for outcome, meant in expected.items():
        played = turn(0, verdict(outcome))
        told = prompts.feedback(played.result, played.extraction)
        asked = prompts.refinement(task(), [played.model_copy(update={"feedback": told})], [0])
        assert verdict_of(asked[-1].content) == meant


async def test_no_task_is_too_much_for_it() -> None:
    teacher = ScriptedTeacher()
    for one in builtin_tasks():
        messages = prompts.first_turn(builtin_task(one.name))
        for key in "abcdefgh":
            said = await teacher.generate(messages, Sampling(), key=key)
            assert said.completion_tokens > 0


async def test_first_attempts_follow_the_weights_and_the_key_decides() -> None:
    messages = prompts.first_turn(Task(name="gated", reference=GATED), variant="distill")
    none = dict.fromkeys(("naive", "lazy", "wrong", "broken", "decoy", "silent", "cut", "sound"), 0)
    kinds = {}
    for kind in ("sound", "decoy", "silent", "cut", "naive"):
        teacher = ScriptedTeacher(TeacherSettings.model_validate({**none, kind: 1}))
        said = await teacher.generate(messages, Sampling(), key="gated/0/0")
        kinds[kind] = prompts.extract(said.text, said.finish)
    assert kinds["silent"].how == "none"
    assert kinds["cut"].how == "truncated"
    assert "scratch = " in (kinds["decoy"].code or "")
    plan = read_plan(kinds["naive"].code or "")
    assert plan is not None
    assert plan.level == 1
    teacher = ScriptedTeacher()
    texts = [
        (await teacher.generate(messages, Sampling(seed=seed), key=key)).text
        for seed, key in ((1, "a"), (1, "a"), (2, "a"), (1, "b"), (3, "c"), (4, "d"))
    ]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 2
