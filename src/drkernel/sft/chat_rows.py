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
    by_turn = layout == "turns" or (
        layout == "auto" and not all(_keeps_past(tokenizer, c.messages) for c in conversations)
    )
    rows: list[Row] = []
    truncated = empty = 0
    for conversation in conversations:
        for row in conversation_rows(tokenizer, conversation.messages, by_turn=by_turn):
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
    answers = [n for n, message in enumerate(messages) if message.role == "assistant"]
    if by_turn:
        return [_row(tokenizer, messages[: n + 1], [n]) for n in answers]
    if not _keeps_past(tokenizer, messages):
        raise UsageError(
            "this chat template changes earlier turns, so a conversation is not one text",
            hint="--data.rows turns",
        )
    return [_row(tokenizer, messages[: answers[-1] + 1], answers)]


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


def _keeps_past(tokenizer: Any, messages: Sequence[Message]) -> bool:
    """Whether every prompt and every answer is a beginning of the whole text."""
    whole = render(tokenizer, messages, ask=False)
    return all(
        whole.startswith(render(tokenizer, messages[:n], ask=True))
        and whole.startswith(render(tokenizer, messages[: n + 1], ask=False))
        for n, message in enumerate(messages)
        if message.role == "assistant"
    )


def _row(tokenizer: Any, messages: Sequence[Message], answers: Sequence[int]) -> Row:
    """The text up to the last answer's end, in pieces: prompt, answer, prompt, answer, ..."""
    ids: list[int] = []
    trained: list[bool] = []
    done = ""
    for number in answers:
        prompt = render(tokenizer, messages[:number], ask=True)
        answered = render(tokenizer, messages[: number + 1], ask=False)
        if not (prompt.startswith(done) and answered.startswith(prompt)):
            raise UsageError(
                "the chat template does not put an answer where it asks for one",
                hint="a template whose generation prompt is the beginning of an assistant message",
            )
        answer = _to_end_token(tokenizer, answered[len(prompt) :])
        for piece, target in ((prompt[len(done) :], False), (answer, True)):
            piece_ids = tokenizer(piece, add_special_tokens=False)["input_ids"]
            ids += piece_ids
            trained += [target] * len(piece_ids)
        done = prompt + answer
    return Row(np.array(ids, dtype=np.int64), np.array(trained, dtype=bool))


def _to_end_token(tokenizer: Any, answer: str) -> str:
    """The answer up to its end token; as it is where the template writes none."""
    end = tokenizer.eos_token
    place = answer.rfind(end)
    return answer if place < 0 else answer[: place + len(end)]
