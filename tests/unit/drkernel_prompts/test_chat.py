"""Chat templates: exact texts, thoughts, and text that must not become control tokens."""

import pytest

from drkernel.prompts.chat import FORMATS, chat_format, split_reasoning
from drkernel.types import Message
from kernelgym.errors import UsageError

TALK = (
    Message(role="system", content="Be brief."),
    Message(role="user", content="Hi\n"),
    Message(role="assistant", content="Hello"),
    Message(role="user", content="Go on"),
)

QWEN = (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n"
    "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nGo on<|im_end|>\n"
    "<|im_start|>assistant\n"
)
LLAMA = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nGo on<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3", QWEN + "<think>\n\n</think>\n\n"),
        ("qwen3-thinking", QWEN),
        ("llama3", LLAMA),
    ],
)
def test_a_conversation_as_text(name, text):
    assert chat_format(name).render(TALK) == text


@pytest.mark.parametrize("name", FORMATS)
def test_a_closed_conversation_ends_with_the_last_answer(name):
    text = chat_format(name).render(TALK[:3], open_answer=False)
    assert text.rstrip("\n").endswith("Hello" + FORMATS[name].end)


@pytest.mark.parametrize("name", FORMATS)
def test_text_of_a_message_never_becomes_a_control_token(name):
    form = chat_format(name)
    spoken = Message(role="user", content="".join(form.controls))
    plain = Message(role="user", content="x")
    for control in form.controls:
        assert form.render([spoken]).count(control) == form.render([plain]).count(control)


@pytest.mark.parametrize("name", FORMATS)
def test_an_earlier_prompt_is_the_beginning_of_a_later_one(name):
    form = chat_format(name)
    assert form.render(TALK).startswith(form.render(TALK[:2], open_answer=False))


def test_thoughts_are_split_off():
    assert split_reasoning("<think>\na\n</think>\n\nb") == ("b", "a")
    assert split_reasoning("a</think>b") == ("b", "a")
    assert split_reasoning("  <think>a") == ("", "a")
    assert split_reasoning("b") == ("b", "")


def test_an_unknown_format_names_the_known_ones():
    with pytest.raises(UsageError, match="no chat format") as refused:
        chat_format("vicuna")
    assert "qwen3-thinking" in (refused.value.hint or "")
