"""The words of an episode: messages, generations, turns, and the policy that speaks.

What goes to disk (everything but `Policy`) is frozen pydantic data like `kernelgym.schema`; readers
ignore unknown fields. Importing this module imports neither torch nor transformers.

Not here: how prompts are written (`drkernel.prompts`), how policies reach a model
(`drkernel.policy`), how turns are played (`drkernel.rollout`), how rewards are computed
(`drkernel.algo`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kernelgym.schema import EvalResult

if TYPE_CHECKING:
    from torch import Tensor

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length", "context", "error"]
"""``stop``: the model ended its answer. ``length``: cut off at ``max_tokens``. ``context``: the
prompt left no room for an answer, nothing was generated. ``error``: the model could not be reached
or answered nonsense, after every retry; nothing of it may be used."""
How = Literal["fence", "marker", "none", "truncated", "unparsable"]
Status = Literal["evaluated", "no_code", "truncated", "context", "policy_error", "infrastructure"]
Stopped = Literal["turns", "context", "policy_error", "infrastructure", "cancelled", "solved"]
MISSING = ("context", "policy_error", "infrastructure")
"""Statuses of a turn that says nothing about the policy: never a reward of zero."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class Message(_Record):
    """One message of a conversation."""

    role: Role
    """Who speaks."""
    content: str
    """What is said; reasoning is never part of it."""


class Sampling(_Record):
    """How an answer is drawn."""

    temperature: float = Field(default=1.0, ge=0)
    """0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus; 1 keeps the whole distribution, which training needs."""
    max_tokens: int = Field(default=8192, ge=1)
    """Longest answer in tokens, reasoning included."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are not part of it."""
    seed: int | None = None
    """Makes the draw repeatable together with the call's key, where the policy can."""


class Generation(_Record):
    """One answer of a policy, and what it cost."""

    text: str
    """The answer without its reasoning."""
    reasoning: str = ""
    """What the model thought before answering, where it can be told apart."""
    finish: Finish
    """How it ended."""
    prompt_ids: tuple[int, ...] | None = None
    """Token ids the model was given; None when the policy does not know them."""
    token_ids: tuple[int, ...] | None = None
    """Token ids it sampled, end token included; never re-tokenised text."""
    logprobs: tuple[float, ...] | None = None
    """Natural log-probability of each of ``token_ids`` under the distribution it was sampled
    from."""
    prompt_tokens: int = Field(default=0, ge=0)
    """Tokens of the prompt."""
    completion_tokens: int = Field(default=0, ge=0)
    """Tokens of the answer, reasoning included."""
    cost_usd: float | None = None
    """US dollars for all attempts that were answered; None when no price is known."""
    error: str = ""
    """Why ``finish`` is ``error`` or ``context``."""

    @model_validator(mode="after")
    def _one_logprob_a_token(self) -> Self:
        if self.logprobs is not None and len(self.logprobs) != len(self.token_ids or ()):
            raise ValueError("logprobs needs exactly one entry for each of token_ids")
        if self.token_ids is not None and len(self.token_ids) != self.completion_tokens:
            raise ValueError("completion_tokens must be the number of token_ids")
        if self.prompt_ids is not None and len(self.prompt_ids) != self.prompt_tokens:
            raise ValueError("prompt_tokens must be the number of prompt_ids")
        return self


@runtime_checkable
class Policy(Protocol):
    """A model that answers messages. Safe for many concurrent calls on one event loop."""

    name: str
    """Name for records and tables, e.g. ``openai:some-model``."""
    context_tokens: int
    """Most tokens that prompt and answer may have together."""

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, key: str
    ) -> Generation:
        """One answer. ``key`` is unique a call (task/sample/turn).

        A model that cannot be reached, or answers nonsense, is a `Generation` with finish
        ``error``; a prompt that leaves no room is one with finish ``context``.

        Raises:
            UsageError: the policy is configured wrongly (unknown model, refused key).
        """
        ...

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt that these messages make; an upper estimate where no exact count
        is possible."""
        ...

    async def push_weights(self, state: Mapping[str, Tensor] | str | Path, version: int) -> None:
        """Answer with these weights from now on: a state dict, or a checkpoint's folder.

        Raises:
            UsageError: the policy has no weights that could be changed.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and memory."""
        ...


class Extraction(_Record):
    """The candidate's source found in an answer."""

    code: str | None
    """The source; None when there is none (``none``) or only a part of it (``truncated``). Of an
    ``unparsable`` one the text is kept: the judge's compile error then names its line."""
    how: How
    """``fence``: the last complete fenced block that counts. ``marker``: between code markers.
    ``none``: no code. ``truncated``: a fence was opened and never closed. ``unparsable``: found,
    but not valid Python."""
    note: str = ""
    """One sentence for the next prompt, when there is something to say."""


class Turn(_Record):
    """One candidate of an episode: what was asked, answered, judged and said back."""

    index: int = Field(ge=0)
    """0-based number in its episode."""
    messages_hash: str
    """`messages_hash` of ``prompt``."""
    prompt: tuple[Message, ...]
    """What was sent, after context selection."""
    generation: Generation
    """What came back."""
    extraction: Extraction
    """The source in it."""
    result: EvalResult | None = None
    """The verdict; None when nothing was evaluated, or the gym failed."""
    status: Status
    """What became of it."""
    feedback: str = ""
    """What the next turn is told about it."""
    reward: float = 0.0
    """Reward under the run's rule. Means something only where ``valid``; 0 elsewhere."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Wall seconds by stage: ``generate``, ``evaluate``."""

    @property
    def valid(self) -> bool:
        """Whether it counts in training: it has tokens, and no fault of the machinery's."""
        return self.generation.completion_tokens > 0 and self.status not in MISSING

    @property
    def correct(self) -> bool:
        """C; False without a result."""
        return self.result is not None and self.result.correct

    @property
    def speedup(self) -> float | None:
        """Speedup of record, not capped."""
        return None if self.result is None else self.result.speedup

    @property
    def coverage(self) -> float | None:
        """Share of own kernels in the device time."""
        return None if self.result is None else self.result.coverage

    @property
    def displaced(self) -> float | None:
        """Share of the reference's device time that library kernels no longer run."""
        return None if self.result is None else self.result.displaced


class Episode(_Record):
    """One sample of a task, turn by turn. The task's source is stored once a run, not here."""

    id: str
    """Unique in its run, e.g. ``level2/40#3``."""
    task: str
    """Name of the task."""
    task_hash: str
    """`kernelgym.schema.Task.content_hash`."""
    sample: int = Field(ge=0)
    """0-based number among the samples of its task."""
    seed: int
    """Seed of its draws."""
    policy: str
    """Name of the policy."""
    version: int = 0
    """Version of the policy's weights, as pushed."""
    turns: tuple[Turn, ...] = ()
    """In time order."""
    stopped: Stopped
    """Why it ended."""
    config_digest: str = ""
    """Digest of the run's configuration."""


def messages_hash(messages: Sequence[Message]) -> str:
    """SHA-256 over roles and contents, in order: equal exactly for equal conversations.

    >>> one = (Message(role="user", content="a"),)
    >>> messages_hash(one) == messages_hash(list(one)), len(messages_hash(one))
    (True, 64)
    """
    flat = [[message.role, message.content] for message in messages]
    return hashlib.sha256(json.dumps(flat).encode()).hexdigest()


def as_dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as chat interfaces and chat templates take them."""
    return [{"role": message.role, "content": message.content} for message in messages]
