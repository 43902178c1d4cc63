"""Policy ``scripted``: answers from a function or a list, for tests and for plumbing.

No figure about quality may come from it. It knows no token ids; tokens are estimated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drkernel.policy.accounting import Ledger, Usage
from drkernel.prompts.budget import estimate_tokens
from drkernel.types import Generation, Message, Sampling
from kernelgym.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

Script = Callable[[Sequence[Message], Sampling, str], str | Generation]
"""Messages, sampling and key to an answer."""


class ScriptedPolicy:
    """Answers as it was told to."""

    def __init__(
        self,
        script: Script | Sequence[str] | Mapping[str, str | Sequence[str]],
        *,
        name: str = "scripted",
        context_tokens: int = 32_768,
    ) -> None:
        """``script``: a function; or the answers by turn, the last one again and again; or such
        answers by task, where the key's beginning names the task."""
        self._script = script if callable(script) else _by_turn(script)
        self.name = name
        self.context_tokens = context_tokens
        self.version = 0
        self.ledger = Ledger()

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """An estimate from above."""
        return sum(estimate_tokens(message.content) for message in messages)

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, key: str
    ) -> Generation:
        """What the script says; cut where it is longer than allowed."""
        await asyncio.sleep(0)  # hundreds of episodes take turns
        self.ledger.requests += 1
        prompt_tokens = self.count_tokens(messages)
        room = min(sampling.max_tokens, self.context_tokens - prompt_tokens)
        if room < 1:
            self.ledger.overflowed += 1
            return Generation(text="", finish="context", error="the prompt fills the context")
        said = self._script(messages, sampling, key)
        if isinstance(said, str):
            said = _cut(said, prompt_tokens, room)
        self.ledger.accept(Usage(said.prompt_tokens, said.completion_tokens), 0.0)
        return said

    async def push_weights(self, state: Mapping[str, Tensor] | str | Path, version: int) -> None:
        """There are none: the version is noted, so that a trainer's plumbing can be tried."""
        self.version = version

    async def aclose(self) -> None:
        """Nothing to release."""


def _cut(text: str, prompt_tokens: int, room: int) -> Generation:
    tokens = max(1, estimate_tokens(text))
    if tokens <= room:
        return Generation(
            text=text, finish="stop", prompt_tokens=prompt_tokens, completion_tokens=tokens
        )
    kept = text.encode("utf-8", "replace")[: 3 * room].decode("utf-8", "ignore")
    return Generation(
        text=kept, finish="length", prompt_tokens=prompt_tokens, completion_tokens=room
    )


def _by_turn(answers: Sequence[str] | Mapping[str, str | Sequence[str]]) -> Script:
    """A script that counts the answers already given in the conversation."""

    def script(messages: Sequence[Message], sampling: Sampling, key: str) -> str:
        listed = _of_task(answers, key) if isinstance(answers, Mapping) else answers
        turn = sum(message.role == "assistant" for message in messages)
        listed = [listed] if isinstance(listed, str) else listed
        return listed[min(turn, len(listed) - 1)]

    return script


def _of_task(answers: Mapping[str, str | Sequence[str]], key: str) -> str | Sequence[str]:
    names = [name for name in answers if key == name or key.startswith(f"{name}/")]
    if not names:
        raise UsageError(f"the script has no answer for {key!r}", hint=f"it has {sorted(answers)}")
    return answers[max(names, key=len)]
