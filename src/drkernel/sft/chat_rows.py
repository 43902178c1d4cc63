"""Messages -> token ids, with the assistant's turns as targets.

Each answer is tokenised apart from what comes before it, as it is when it is sampled: the ids of a
prompt are those that a policy is given, and no token spans the border. The end token of an answer
is a target (a model must learn to stop), the line break that a template puts after it is not.

A template that shows earlier turns differently once they are past (dropping their thinking) cannot
make one row of a conversation; then every turn is a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from drkernel.prompts.chat import neutral
from drkernel.sft.conversations import Conversation
from drkernel.train.rows import Row
from drkernel.types import Message, as_dicts
from kernelgym.errors import UsageError

_AT_ONCE = 1024
"""Conversations tokenised in one call."""


@dataclass(frozen=True)
class RowCounts:
    """What became of the conversations."""

    conversations: int
    rows: int
    tokens: int
    targets: int
    truncated: int
    """Rows cut on the right."""
    empty: int
    """Rows left out because the cut left no target."""
    by_turn: bool
    """Whether every turn is a row of its own."""

    def as_metrics(self, name: str) -> dict[str, int]:
        """Flat numbers for a tracker."""
        return {f"data/{name}/{key}": int(value) for key, value in vars(self).items()}


def make_rows(
    tokenizer: Any,
    conversations: Sequence[Conversation],
    *,
    max_tokens: int,
    layout: Literal["auto", "conversation", "turns"] = "auto",
) -> tuple[list[Row], RowCounts]:
    """Rows of all conversations, cut on the right to ``max_tokens``."""
    chats = [_Chat.of(tokenizer, conversation.messages) for conversation in conversations]
    by_turn = layout == "turns" or (layout == "auto" and not all(c.keeps_past for c in chats))
    rows: list[Row] = []
    truncated = empty = 0
    for start in range(0, len(chats), _AT_ONCE):
        texts = [pieces for c in chats[start : start + _AT_ONCE] for pieces in c.rows(by_turn)]
        for row in _tokenised(tokenizer, texts):
            truncated += row.tokens > max_tokens
            cut = row.cut(max_tokens)
            if cut.targets:
                rows.append(cut)
            else:
                empty += 1
    if conversations and not rows:
        raise UsageError(
            f"all {empty} rows are prompts longer than {max_tokens} tokens",
            hint="--data.max-tokens",
        )
    targets = sum(row.targets for row in rows)
    tokens = sum(row.tokens for row in rows)
    return rows, RowCounts(
        len(conversations), len(rows), tokens, targets, truncated, empty, by_turn
    )


def conversation_rows(tokenizer: Any, messages: Sequence[Message], *, by_turn: bool) -> list[Row]:
    """One row, or one for each turn of the assistant."""
    return _tokenised(tokenizer, _Chat.of(tokenizer, messages).rows(by_turn))


def render(tokenizer: Any, messages: Sequence[Message], *, ask: bool) -> str:
    """The text of messages; ``ask`` opens the assistant's next turn."""
    text = tokenizer.apply_chat_template(
        as_dicts(_quiet(tokenizer, messages)), tokenize=False, add_generation_prompt=ask
    )
    return str(text)


def _quiet(tokenizer: Any, messages: Sequence[Message]) -> list[Message]:
    """Messages whose text spells out no control token, as a policy is given them.

    An answer keeps tokens that only mark its parts, such as a thought's.
    """
    special = tuple(tokenizer.all_special_tokens)
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    controls = tuple(dict.fromkeys([*special, *(str(token) for token in added)]))
    return [
        Message(
            role=m.role, content=neutral(m.content, special if m.role == "assistant" else controls)
        )
        for m in messages
    ]


Pieces = list[tuple[str, bool]]
"""Texts that are tokenised apart, and whether each is an answer."""


@dataclass(frozen=True)
class _Chat:
    """A conversation as texts."""

    turns: tuple[tuple[str, str], ...]
    """Of each answer: everything before it, and everything up to its end."""
    whole: str
    """Everything."""
    end_token: str

    @classmethod
    def of(cls, tokenizer: Any, messages: Sequence[Message]) -> _Chat:
        turns = tuple(
            (
                render(tokenizer, messages[:number], ask=True),
                render(tokenizer, messages[: number + 1], ask=False),
            )
            for number, message in enumerate(messages)
            if message.role == "assistant"
        )
        is_last = messages[-1].role == "assistant"
        whole = turns[-1][1] if is_last else render(tokenizer, messages, ask=False)
        return cls(turns, whole, tokenizer.eos_token)

    @property
    def keeps_past(self) -> bool:
        """Whether every prompt and every answer is a beginning of the whole text."""
        return all(
            self.whole.startswith(prompt) and self.whole.startswith(answered)
            for prompt, answered in self.turns
        )

    def rows(self, by_turn: bool) -> list[Pieces]:
        """The pieces of each row."""
        if by_turn:
            return [self._pieces([turn]) for turn in self.turns]
        if not self.keeps_past:
            raise UsageError(
                "this chat template changes earlier turns, so a conversation is not one text",
                hint="--data.rows turns",
            )
        return [self._pieces(self.turns)]

    def _pieces(self, turns: Sequence[tuple[str, str]]) -> Pieces:
        """The text up to the last answer's end: prompt, answer, prompt, answer, ..."""
        pieces: Pieces = []
        done = ""
        for prompt, answered in turns:
            if not (prompt.startswith(done) and answered.startswith(prompt)):
                raise UsageError(
                    "the chat template does not put an answer where it asks for one",
                    hint="a template whose generation prompt is the beginning of an assistant "
                    "message",
                )
            answer = self._to_end_token(answered[len(prompt) :])
            pieces += [(prompt[len(done) :], False), (answer, True)]
            done = prompt + answer
        return pieces

    def _to_end_token(self, answer: str) -> str:
        """The answer up to its end token; as it is where the template writes none."""
        place = answer.rfind(self.end_token)
        return answer if place < 0 else answer[: place + len(self.end_token)]


def _tokenised(tokenizer: Any, rows: Sequence[Pieces]) -> list[Row]:
    """All pieces in one call: the tokenizer spreads them over the cores."""
    texts = [text for pieces in rows for text, _ in pieces]
    found = iter(tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else ())
    made = []
    for pieces in rows:
        ids: list[int] = []
        trained: list[bool] = []
        for _, is_answer in pieces:
            piece_ids = next(found)
            ids += piece_ids
            trained += [is_answer] * len(piece_ids)
        made.append(Row(np.array(ids, dtype=np.int64), np.array(trained, dtype=bool)))
    return made
