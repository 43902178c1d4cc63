"""Policy over an OpenAI-compatible endpoint: a vendor's, or a vLLM or SGLang server.

One call of `generate` sends requests until one is answered for good. Waits are the endpoint's own
(Retry-After, for all callers together) or grow exponentially with jitter. Requests of one call
carry one ``Idempotency-Key``. Every request and token is in `OpenAIPolicy.ledger` exactly once.

Log-probabilities are what the server calls so: vLLM's are those before temperature and nucleus
unless it is started with ``--logprobs-mode processed_logprobs``; at temperature 1 and top_p 1 they
are the same. Not covered: streaming, tools, several choices a request.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from drkernel.policy import replies
from drkernel.policy.accounting import Ledger, Usage, cost_of
from drkernel.policy.pacing import Clock, Pacer, Sleep
from drkernel.policy.seeds import seed_of
from drkernel.policy.settings import OpenAISettings
from drkernel.prompts.budget import estimate_tokens
from drkernel.types import Generation, Message, Sampling, as_dicts
from kernelgym.errors import ServiceError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

_CONNECT_S = 20.0
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
_MESSAGE_TOKENS = 8
"""What a chat template adds to a message, from above."""
_OMIT = "omit"


class OpenAIPolicy:
    """A model behind ``/chat/completions``."""

    def __init__(
        self,
        model: str,
        settings: OpenAISettings | None = None,
        *,
        name: str = "",
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """``clock`` and ``sleep`` are for tests."""
        self.settings = settings or OpenAISettings()
        if not self.settings.base_url.startswith(("http://", "https://")):
            raise UsageError(
                f"{self.settings.base_url!r} is no address of an endpoint",
                hint="http://HOST:PORT/v1",
            )
        self.model = model
        self.name = name or f"openai:{model}"
        self.context_tokens = self.settings.context_tokens
        self.version = 0
        self.ledger = Ledger()
        self._clock, self._sleep = clock, sleep
        self._pacer = Pacer(self.settings.limits, clock, sleep)
        self._http = httpx.AsyncClient(**_client_options(self.settings))

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """An estimate from above; the endpoint's own count is in each answer."""
        return sum(estimate_tokens(message.content) + _MESSAGE_TOKENS for message in messages)

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, key: str
    ) -> Generation:
        """As `drkernel.types.Policy.generate`."""
        call = _Call(self, messages, sampling, key)
        try:
            generation = await call.run()
        except BaseException:  # also CancelledError; nothing is swallowed
            self.ledger.cancelled += 1
            raise
        if generation.finish == "error":
            self.ledger.failed += 1
        elif generation.finish == "context":
            self.ledger.overflowed += 1
        return generation

    async def push_weights(self, state: Mapping[str, Tensor] | str | Path, version: int) -> None:
        """Have the server load a checkpoint's folder, where ``weights`` says how.

        Raises:
            UsageError: the endpoint's weights are fixed, or ``state`` is no folder.
            ServiceError: the server could not load them.
        """
        if self.settings.weights == "fixed":
            raise UsageError(
                f"the weights of {self.name} cannot be changed",
                hint='an SGLang server and weights = "sglang"',
            )
        if not isinstance(state, str | Path):
            raise UsageError("a server takes weights from a folder, not from memory")
        try:
            response = await self._http.post(
                _root(self.settings.base_url) + "/update_weights_from_disk",
                json={"model_path": str(state)},
            )
            data = response.json()
        except (httpx.TransportError, ValueError) as error:
            raise ServiceError(f"{self.name} did not take the weights: {error!r}") from error
        if response.status_code != 200 or not (isinstance(data, dict) and data.get("success")):
            raise ServiceError(f"{self.name} did not take the weights: {response.text[:500]}")
        self.version = version

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> replies.Verdict:
        """One request; every kind of failure is a verdict."""
        self.ledger.requests += 1
        answered = False
        try:
            response = await self._http.post("chat/completions", json=body, headers=dict(headers))
            answered = True
        except httpx.TimeoutException as error:
            return replies.Again("timeout", f"{error!r} at {self.settings.base_url}")
        except (httpx.TransportError, httpx.DecodingError) as error:
            return replies.Again("connection", f"{error!r} at {self.settings.base_url}")
        finally:
            self.ledger.lost += not answered
        headers = {name.lower(): value for name, value in response.headers.items()}
        reply = replies.Reply(response.status_code, response.content, headers)
        return replies.read(reply, need_ids=self.settings.token_ids == "require")


class _Call:
    """One call of `generate`: requests until there is an end."""

    def __init__(
        self, policy: OpenAIPolicy, messages: Sequence[Message], sampling: Sampling, key: str
    ) -> None:
        self.policy = policy
        self.settings = policy.settings
        self.body = request_body(policy.model, messages, sampling, key, policy.settings)
        self.headers = {"Idempotency-Key": uuid.uuid4().hex}
        self.prompt_estimate = policy.count_tokens(messages)
        self.max_tokens = sampling.max_tokens
        self.give_up = policy._clock() + self.settings.limits.patience_s
        self.cost_usd: float | None = None
        self.failures = self.waits = 0
        self.shortened = False

    async def run(self) -> Generation:
        while True:
            reserved = self.prompt_estimate + self.max_tokens
            async with self.policy._pacer.slot(reserved):
                verdict = await self.policy.send(self.body, self.headers)
            self._settle(verdict, reserved)
            if isinstance(verdict, replies.Answer):
                return self._accept(verdict)
            if isinstance(verdict, replies.Refusal):
                raise _refused(self.policy, verdict)
            if isinstance(verdict, replies.Overflow):
                if not self._shorten(verdict):
                    return self._ended("context", verdict.detail)
                continue
            end = await self._again(verdict)
            if end is not None:
                return end

    def _settle(self, verdict: replies.Verdict, reserved: int) -> None:
        usage = verdict.usage if isinstance(verdict, replies.Answer | replies.Again) else None
        used = usage.prompt_tokens + usage.completion_tokens if usage else 0
        if usage is not None or isinstance(verdict, replies.Overflow | replies.Refusal):
            self.policy._pacer.settle(reserved, used)

    def _pay(self, usage: Usage) -> float | None:
        cost = cost_of(usage, self.settings.price)
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        return cost

    def _accept(self, answer: replies.Answer) -> Generation:
        usage = _consistent(answer, self.prompt_estimate)
        self.policy.ledger.accept(usage, self._pay(usage))
        return Generation(
            text=answer.text,
            reasoning=answer.reasoning,
            finish="length" if answer.cut else "stop",
            prompt_ids=answer.prompt_ids,
            token_ids=answer.token_ids,
            logprobs=answer.logprobs,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=self.cost_usd,
        )

    def _shorten(self, overflow: replies.Overflow) -> bool:
        """Ask for a shorter answer, once, where the endpoint says what fits."""
        if self.shortened or overflow.room is None or not 0 < overflow.room < self.max_tokens:
            return False
        self.shortened, self.max_tokens = True, overflow.room
        self.body[self.settings.max_tokens_field] = overflow.room
        self.policy.ledger.retried["shorter"] += 1
        return True

    async def _again(self, verdict: replies.Again) -> Generation | None:
        if verdict.usage is not None:
            self.policy.ledger.waste(verdict.usage, self._pay(verdict.usage))
        self.failures += verdict.counts
        wait_s = verdict.wait_s
        if wait_s is None:
            top = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(self.waits, 20))
            wait_s = random.uniform(top / 2, top)
        self.waits += 1
        out_of_time = self.policy._clock() + wait_s > self.give_up
        if self.failures >= self.settings.limits.attempts or out_of_time:
            return self._ended("error", f"{verdict.reason}: {verdict.detail}")
        self.policy.ledger.retried[verdict.reason] += 1
        if not verdict.counts and verdict.wait_s is not None:
            self.policy._pacer.hold(verdict.wait_s)
        await self.policy._sleep(wait_s)
        return None

    def _ended(self, finish: str, error: str) -> Generation:
        return Generation.model_validate(
            {"text": "", "finish": finish, "error": error[:1000], "cost_usd": self.cost_usd}
        )


def request_body(
    model: str, messages: Sequence[Message], sampling: Sampling, key: str, settings: OpenAISettings
) -> dict[str, Any]:
    """The JSON of a request."""
    body: dict[str, Any] = {
        "model": model,
        "messages": as_dicts(messages),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        settings.max_tokens_field: sampling.max_tokens,
    }
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        body["seed"] = seed_of(sampling.seed, key)
    if settings.token_ids != "none":
        body |= {"logprobs": True, "return_token_ids": True}
    body |= settings.extra_body
    return {name: value for name, value in body.items() if value is not None and value != _OMIT}


def _consistent(answer: replies.Answer, prompt_estimate: int) -> Usage:
    """Usage of an answer: ids decide, then what the endpoint says, then an estimate."""
    usage = answer.usage
    if usage is None:
        completion = estimate_tokens(answer.text) + estimate_tokens(answer.reasoning)
        usage = Usage(prompt_estimate, completion, estimated=True)
    return Usage(
        prompt_tokens=usage.prompt_tokens if answer.prompt_ids is None else len(answer.prompt_ids),
        completion_tokens=(
            usage.completion_tokens if answer.token_ids is None else len(answer.token_ids)
        ),
        reasoning_tokens=usage.reasoning_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost_usd,
        estimated=usage.estimated,
    )


def _refused(policy: OpenAIPolicy, refusal: replies.Refusal) -> UsageError:
    hints = {
        401: f"${policy.settings.key_variable} holds the key",
        402: "the account has no credit",
        403: f"${policy.settings.key_variable} holds the key",
        404: f"curl {policy.settings.base_url.rstrip('/')}/models",
        429: "the account has no credit",
    }
    return UsageError(
        f"{policy.name} refuses requests ({refusal.status}): {refusal.detail}",
        hint=hints.get(refusal.status, "policy.openai.extra_body changes what is sent"),
    )


def _client_options(settings: OpenAISettings) -> dict[str, Any]:
    key = os.environ.get(settings.key_variable, "")
    limit = settings.limits.concurrency
    return {
        "base_url": settings.base_url.rstrip("/") + "/",
        "headers": {"Authorization": f"Bearer {key}"} if key else {},
        "timeout": httpx.Timeout(settings.limits.timeout_s, connect=_CONNECT_S, pool=None),
        "limits": httpx.Limits(max_connections=limit, max_keepalive_connections=limit),
        "verify": settings.base_url.startswith("https:"),  # loading certificates takes 30 ms
    }


def _root(base_url: str) -> str:
    """The server's address without a path."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc, "", "", ""))
