"""Prompts as they are sent, compared with ``snapshots/`` (see ``kept_texts``)."""

import pytest
from judged import kept, on_gpu, turn
from kept_texts import check

from drkernel.prompts import BACKENDS, VARIANTS, extract, first_turn, refinement
from drkernel.prompts.writing import state_of
from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.task import find_task

GELU = find_task("builtin/gelu")
NO_CODE = extract("no code at all")


def shown(messages) -> str:
    return "".join(f"===== {m.role}\n{m.content.rstrip()}\n" for m in messages)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("backend", "gpu"), [("triton", "NVIDIA H200"), ("numba", None)])
def test_the_first_turn(variant, backend, gpu):
    messages = first_turn(GELU, backend=backend, gpu=gpu, variant=variant)
    check(f"first_turn_{backend}_{variant}", shown(messages))


@pytest.mark.parametrize("variant", ["train", "compact"])
def test_a_refinement_shows_kept_turns_and_asks_by_state(variant):
    turns = [
        turn(0, None, text="Let me think", extraction=NO_CODE),
        turn(1, kept("compile_error_gelu")),
        turn(2, kept("decoy_gelu")),
        turn(3, kept("wrong_layer_norm")),
        turn(4, on_gpu(0.8)),
        turn(5, on_gpu(1.01)),
        turn(6, on_gpu(1.42)),
        turn(7, kept("softmax")),
    ]
    messages = refinement(GELU, turns, range(8), variant=variant)
    assert [m.role for m in messages] == ["user", *["assistant", "user"] * 8]
    check(f"refinement_{variant}", shown(messages[1:]))


def test_a_longer_conversation_begins_like_the_shorter_one():
    turns = [turn(0, kept("compile_error_gelu")), turn(1, on_gpu())]
    short, long = (refinement(GELU, turns, range(n)) for n in (1, 2))
    assert long[: len(short)] == short
    assert short[:1] == first_turn(GELU)


def test_what_is_not_kept_is_not_shown():
    turns = [turn(index, on_gpu(1.1 + index / 10)) for index in range(4)]
    messages = refinement(GELU, turns, [1, 3])
    assert [m.content for m in messages if m.role == "assistant"] == ["attempt 2", "attempt 4"]
    assert "Result of attempt 2:" in messages[2].content
    assert "Result of attempt 4:" in messages[4].content


@pytest.mark.parametrize("keep", [[], [1, 0], [0, 0], [2], [-1]])
def test_kept_turns_must_exist_in_order(keep):
    with pytest.raises(ValueError, match="keep must name turns"):
        refinement(GELU, [turn(0, on_gpu()), turn(1, on_gpu())], keep)


def test_sft_and_rl_share_one_text_and_a_teacher_is_asked_for_its_plan():
    train, distill, compact = (first_turn(GELU, variant=v)[0].content for v in VARIANTS)
    assert "Then write down" in distill
    assert "Then write down" not in train
    assert len(compact) < len(train) / 2
    assert all(GELU.reference.strip() in text for text in (train, distill, compact))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_worked_example_is_code(backend):
    text = first_turn(GELU, backend=backend)[0].content
    blocks = [part.partition("```")[0] for part in text.split("```python\n")[1:3]]
    for block in blocks:
        compile(block, "example", "exec")
    assert "class Model(" in blocks[0]
    assert "class ModelNew(" in blocks[1]


def test_a_reference_with_fences_and_control_tokens_stays_inside_its_block():
    task = Task(name="t", reference='"""```\n<|im_end|> ````"""\nclass Model: ...\n')
    text = first_turn(task)[0].content
    assert "<|im_end|>" not in text
    assert "`````python" in text


def test_an_unknown_gpu_is_named_without_figures():
    text = first_turn(GELU, gpu="Someone's GPU 9000")[0].content
    assert "in less time on Someone's GPU 9000." in text
    assert "GB/s" not in text


def test_unknown_backends_and_variants_are_refused_with_what_there_is():
    with pytest.raises(UsageError, match="no prompts for backend 'cobol'") as refused:
        first_turn(GELU, backend="cobol")
    assert "triton" in (refused.value.hint or "")
    with pytest.raises(UsageError, match="no prompt variant"):
        first_turn(GELU, variant="long")


def test_states():
    wide = on_gpu(1.2).model_copy(update={"speedup_interval": (0.9, 1.5)})
    states = [turn(0, r) for r in (None, on_gpu(0.8), on_gpu(1.0), wide, on_gpu(2.0))]
    assert [state_of(t) for t in states] == ["no_code", "slow", "equal", "equal", "fast"]
