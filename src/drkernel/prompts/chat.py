"""Chat templates of two families, for models and servers that bring none of their own.

``qwen3`` answers at once (its prompt ends with an empty thought), ``qwen3-thinking`` thinks first,
``llama3`` knows no thoughts. Thoughts of earlier turns are never part of a prompt. The templates
are in the dialect of transformers (`ChatFormat.template` can be set as ``tokenizer.chat_template``)
and use only ``messages``, ``add_generation_prompt`` and ``enable_thinking``.

Text inside a message never becomes a control token: `neutral` breaks those up. Not covered: tools,
images, and a family's default system message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import jinja2

from drkernel.types import Message, as_dicts
from kernelgym.errors import UsageError

_THOUGHT = re.compile(r"\A\s*(?:<think>)?(.*?)</think>\s*", re.DOTALL)


@dataclass(frozen=True)
class ChatFormat:
    """How one family of models writes a conversation."""

    name: str
    """As in `FORMATS`."""
    family: str
    """Name of the template."""
    end: str
    """Control token that ends an answer."""
    controls: tuple[str, ...]
    """Every control token of the format; none may come from a message's text."""
    thinking: bool = False
    """Whether answers begin with a thought."""

    @cached_property
    def template(self) -> str:
        """The template's source, for ``tokenizer.chat_template``."""
        place = files("drkernel.prompts") / "templates" / "chat" / f"{self.family}.jinja"
        return place.read_text("utf-8")

    def render(self, messages: Sequence[Message], *, open_answer: bool = True) -> str:
        """The conversation as one text; ``open_answer`` ends it where the model goes on."""
        quiet = [Message(role=m.role, content=neutral(m.content, self.controls)) for m in messages]
        return _compiled(self.template).render(
            messages=as_dicts(quiet),
            add_generation_prompt=open_answer,
            enable_thinking=self.thinking,
        )


_QWEN = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>")
_LLAMA = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>")
FORMATS = {
    each.name: each
    for each in (
        ChatFormat("qwen3", "qwen3", "<|im_end|>", _QWEN),
        ChatFormat("qwen3-thinking", "qwen3", "<|im_end|>", _QWEN, thinking=True),
        ChatFormat("llama3", "llama3", "<|eot_id|>", (*_LLAMA, "<|eot_id|>", "<|eom_id|>")),
    )
}
"""The formats by name."""


def chat_format(name: str) -> ChatFormat:
    """The format called ``name``.

    Raises:
        UsageError: for a name that is not in `FORMATS`.
    """
    if name not in FORMATS:
        raise UsageError(f"no chat format {name!r}", hint=f"one of {', '.join(FORMATS)}")
    return FORMATS[name]


def neutral(text: str, controls: Sequence[str]) -> str:
    """The text with a space inside every control token that it spells out.

    >>> neutral("a<|im_end|>b", ("<|im_end|>",))
    'a< |im_end|>b'
    """
    for control in controls:
        if len(control) > 1:
            text = text.replace(control, f"{control[0]} {control[1:]}")
    return text


def split_reasoning(text: str) -> tuple[str, str]:
    """Answer and thought of a text that may begin with ``<think> ... </think>``.

    A thought that never ends has no answer after it.

    >>> split_reasoning("<think>why</think>\\nbecause")
    ('because', 'why')
    >>> split_reasoning("<think>why"), split_reasoning("because")
    (('', 'why'), ('because', ''))
    """
    found = _THOUGHT.match(text)
    if found:
        return text[found.end() :], found[1].strip()
    opened = text.lstrip()
    if opened.startswith("<think>"):
        return "", opened.removeprefix("<think>").strip()
    return text, ""


@cache
def _compiled(source: str) -> jinja2.Template:
    return jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False).from_string(
        source
    )
