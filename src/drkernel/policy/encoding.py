"""Messages to token ids, and sampled ids to an answer, by a tokenizer's chat template or ours.

Ids of a prompt are made here and nowhere else on the way to the model, so that sampling and
training see the same ones. Control tokens that a message's text spells out are broken up first.
The tokenizer is one of transformers'; nothing is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drkernel.prompts.chat import chat_format, neutral, split_reasoning
from drkernel.types import Message, as_dicts
from kernelgym.errors import UsageError


class ChatEncoder:
    """A tokenizer with the chat format that goes with it."""

    def __init__(self, tokenizer: Any, chat: str = "") -> None:
        """``chat``: a format of `drkernel.prompts.chat`, or empty for the tokenizer's own.

        Raises:
            UsageError: for an unknown format, or a tokenizer that has none.
        """
        self.tokenizer = tokenizer
        self._format = chat_format(chat) if chat else None
        if self._format is None and not getattr(tokenizer, "chat_template", None):
            raise UsageError(
                "the tokenizer has no chat template",
                hint="--policy.transformers.chat qwen3, qwen3-thinking or llama3",
            )
        self._controls = _controls(tokenizer)

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as text, up to where the model goes on."""
        if self._format is not None:
            return self._format.render(messages)
        quiet = [Message(role=m.role, content=neutral(m.content, self._controls)) for m in messages]
        text: str = self.tokenizer.apply_chat_template(
            as_dicts(quiet), tokenize=False, add_generation_prompt=True
        )
        return text

    def prompt_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of the conversation, up to where the model goes on."""
        ids = self.tokenizer(self.render(messages), add_special_tokens=False)["input_ids"]
        return tuple(int(item) for item in ids)

    def end_ids(self, model: Any) -> tuple[int, ...]:
        """Tokens that end an answer: the format's, the tokenizer's and the model's own.

        Raises:
            UsageError: there is none.
        """
        named = getattr(model.generation_config, "eos_token_id", None)
        found = list(named) if isinstance(named, list | tuple) else [named]
        found.append(self.tokenizer.eos_token_id)
        if self._format is not None:
            found.append(self.tokenizer.get_vocab().get(self._format.end))
        ends = tuple(dict.fromkeys(int(item) for item in found if item is not None))
        if not ends:
            raise UsageError("neither model nor tokenizer names a token that ends an answer")
        return ends

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of sampled ids, control tokens left out."""
        text: str = self.tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text.encode("utf-8", "replace").decode()

    def answer(self, token_ids: Sequence[int]) -> tuple[str, str]:
        """Answer and reasoning of sampled ids."""
        return split_reasoning(self.decode(token_ids))


def _controls(tokenizer: Any) -> tuple[str, ...]:
    added = getattr(tokenizer, "added_tokens_decoder", {})
    names = [*tokenizer.all_special_tokens, *(str(token) for token in added.values())]
    return tuple(dict.fromkeys(names))
