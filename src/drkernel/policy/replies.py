"""What an OpenAI-compatible endpoint said, as one of four things.

    Answer     an answer that can be used
    Again      nothing usable, worth another request: overload, faults, broken or malformed answers
    Overflow   prompt and answer do not fit the model's context
    Refusal    no request like this one will ever succeed: wrong key, unknown model, bad parameter

Nothing about a reply is trusted: any field may be missing or of another type. Answers of vLLM,
SGLang, OpenAI, DeepSeek and OpenRouter differ in where reasoning, token ids and costs stand; all of
these places are read. Not covered: tool calls, several choices, streaming.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drkernel.policy.accounting import Usage
from drkernel.prompts.chat import split_reasoning

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_NO_CREDIT = re.compile(r"insufficient_quota|billing|exceeded your current quota", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context[_ ]length|maximum context|context window|prompt is too long"
    r"|too many (?:input )?tokens|longer than the model's context"
    r"|max_(?:completion_)?tokens.{0,40}too large",
    re.IGNORECASE | re.DOTALL,
)
_LIMIT = re.compile(
    r"(?:context (?:length|window)|length) (?:is|of) (?:only )?(\d+)", re.IGNORECASE
)
_PROMPT = re.compile(
    r"(\d+) (?:in the messages|input tokens|prompt tokens|tokens from the input)"
    r"|(?:has|prompt contains at least|messages resulted in) (\d+)(?: input)? tokens",
    re.IGNORECASE,
)
_LONGEST_WAIT_S = 600.0


@dataclass(frozen=True)
class Answer:
    """A usable answer."""

    text: str
    reasoning: str
    cut: bool
    """It ended at the longest length allowed."""
    usage: Usage | None
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Again:
    """Worth another request."""

    reason: str
    """Short and stable: ``http_500``, ``rate_limit``, ``timeout``, ``connection``,
    ``malformed``."""
    detail: str
    wait_s: float | None = None
    """How long the endpoint asks to wait; None when it does not say."""
    counts: bool = True
    """Whether it uses up one of the attempts."""
    usage: Usage | None = None
    """Tokens that were charged nevertheless."""


@dataclass(frozen=True)
class Overflow:
    """Too long for the model."""

    detail: str
    room: int | None = None
    """Tokens left for an answer, where the message says."""


@dataclass(frozen=True)
class Refusal:
    """Not to be tried again."""

    detail: str
    status: int = 0


Verdict = Answer | Again | Overflow | Refusal


@dataclass(frozen=True)
class Reply:
    """A reply as it came."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def read(reply: Reply, *, need_ids: bool = False) -> Verdict:
    """Sort one reply; ``need_ids``: an answer without token ids and log-probabilities is
    malformed."""
    data = _json(reply.body)
    if reply.status != 200:
        return _read_error(reply.status, _error_text(data, reply.body), reply.headers)
    if not isinstance(data, dict):
        return Again("malformed", f"no JSON object: {_short(reply.body)}")
    if data.get("error") and not data.get("choices"):
        code = data["error"].get("code") if isinstance(data["error"], dict) else None
        status = code if isinstance(code, int) else 500
        return _read_error(status, _error_text(data, reply.body), reply.headers)
    usage = _usage(data.get("usage"))
    try:
        return _read_answer(data, usage, need_ids)
    except _Malformed as problem:
        return Again("malformed", f"{problem}: {_short(reply.body)}", usage=usage)


class _Malformed(Exception):
    """Something that must be there is not."""


def _read_answer(data: dict[str, Any], usage: Usage | None, need_ids: bool) -> Verdict:
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise _Malformed("no choices[0].message")
    finish = choice.get("finish_reason")
    if finish in ("abort", "error"):
        raise _Malformed(f"finish_reason {finish!r}")
    text, reasoning = _texts(message)
    if not text and not reasoning and not (usage and usage.completion_tokens):
        raise _Malformed("an empty answer without tokens")
    prompt_ids, token_ids, logprobs = _ids(data, choice)
    if need_ids and (prompt_ids is None or token_ids is None or logprobs is None):
        raise _Malformed("no token ids with log-probabilities")
    return Answer(text, reasoning, finish == "length", usage, prompt_ids, token_ids, logprobs)


def _texts(message: dict[str, Any]) -> tuple[str, str]:
    """Answer and reasoning, wherever they stand."""
    content = message.get("content")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    reasoning = reasoning if isinstance(reasoning, str) else ""
    if content is None:
        content = message.get("refusal") or ""
    if isinstance(content, list):
        content, thought = _parts(content)
        reasoning = reasoning or thought
    if not isinstance(content, str):
        raise _Malformed("message.content is no text")
    if not reasoning:
        content, reasoning = split_reasoning(content)
    return _storable(content), _storable(reasoning)


def _parts(parts: list[Any]) -> tuple[str, str]:
    text, thought = "", ""
    for part in parts:
        if not isinstance(part, dict):
            raise _Malformed("a part of message.content is no object")
        value = part.get("text") or part.get("thinking") or part.get("reasoning") or ""
        if not isinstance(value, str):
            raise _Malformed("a part of message.content is no text")
        if part.get("type") in ("thinking", "reasoning"):
            thought += value
        else:
            text += value
    return text, thought


def _storable(text: str) -> str:
    """Half a surrogate pair cannot be written to any file."""
    return text.encode("utf-8", "replace").decode()


def _ids(
    data: dict[str, Any], choice: dict[str, Any]
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, tuple[float, ...] | None]:
    """Ids and log-probabilities, all that are whole; a mismatch of lengths is as good as none."""
    prompt_ids = _integers(choice.get("prompt_token_ids", data.get("prompt_token_ids")))
    token_ids = _integers(choice.get("token_ids"))
    listed = choice.get("logprobs")
    content = listed.get("content") if isinstance(listed, dict) else None
    entries = content if isinstance(content, list) else None
    if entries is None or not all(isinstance(entry, dict) for entry in entries):
        return prompt_ids, token_ids, None
    if token_ids is None:
        token_ids = _named_ids([entry.get("token") for entry in entries])
    logprobs = _numbers([entry.get("logprob") for entry in entries])
    if logprobs is None or token_ids is None or len(logprobs) != len(token_ids):
        return prompt_ids, token_ids, None
    return prompt_ids, token_ids, logprobs


def _named_ids(tokens: list[Any]) -> tuple[int, ...] | None:
    """Ids of tokens that are written as ``token_id:123`` (vLLM's return_tokens_as_token_ids)."""
    found = [re.fullmatch(r"token_id:(\d+)", token) for token in tokens if isinstance(token, str)]
    if not tokens or len(found) != len(tokens) or not all(found):
        return None
    return tuple(int(match[1]) for match in found if match)


def _integers(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list) and value and all(type(item) is int and item >= 0 for item in value):
        return tuple(value)
    return None


def _numbers(value: list[Any]) -> tuple[float, ...] | None:
    if all(type(item) in (int, float) and math.isfinite(item) for item in value):
        return tuple(float(item) for item in value)
    return None


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt, completion = _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    cost = value.get("cost")
    priced = isinstance(cost, int | float) and math.isfinite(cost) and cost >= 0
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        reasoning_tokens=min(completion, _detail(value, "completion", "reasoning_tokens")),
        cached_tokens=min(prompt, _detail(value, "prompt", "cached_tokens")),
        cost_usd=float(cost or 0) if priced else None,
    )


def _detail(usage: dict[str, Any], side: str, name: str) -> int:
    details = usage.get(f"{side}_tokens_details")
    return (_count(details.get(name)) if isinstance(details, dict) else None) or 0


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _read_error(status: int, text: str, headers: Mapping[str, str]) -> Verdict:
    if status in (400, 413, 422) and _TOO_LONG.search(text):
        return Overflow(text, _room(text))
    if status == 429 and _NO_CREDIT.search(text):
        return Refusal(text, status)
    if status not in _AGAIN and status < 500:
        return Refusal(text, status)
    wait_s = retry_after_s(headers)
    if status == 429:
        return Again("rate_limit", text, wait_s, counts=False)
    return Again(f"http_{status}", text, wait_s, counts=status != 503 or wait_s is None)


def retry_after_s(headers: Mapping[str, str], now_s: float | None = None) -> float | None:
    """Seconds that a reply asks to wait: ``Retry-After-Ms``, or ``Retry-After`` as seconds or date.

    >>> retry_after_s({"retry-after": "2.5"}), retry_after_s({"retry-after-ms": "40"})
    (2.5, 0.04)
    """
    text = headers.get("retry-after-ms", "")
    scale = 1e-3
    if not text:
        text, scale = headers.get("retry-after", ""), 1.0
    try:
        seconds = float(text) * scale
    except ValueError:
        date = email.utils.parsedate_tz(text)
        if date is None:
            return None
        seconds = email.utils.mktime_tz(date) - (time.time() if now_s is None else now_s)
    return min(_LONGEST_WAIT_S, max(0.0, seconds)) if math.isfinite(seconds) else None


def _room(text: str) -> int | None:
    """What vLLM and others say: the model's length, and how much of it the prompt takes."""
    limit, prompt = _LIMIT.search(text), _PROMPT.search(text)
    if limit is None or prompt is None:
        return None
    return int(limit[1]) - int(prompt[1] or prompt[2])


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # also UnicodeDecodeError
        return None


def _error_text(data: Any, body: bytes) -> str:
    if isinstance(data, dict):
        error = data.get("error", data)
        if isinstance(error, dict):
            code, message = error.get("code"), error.get("message") or error.get("detail")
            if message:
                return f"{code}: {message}"[:1000] if code else str(message)[:1000]
        if isinstance(error, str):
            return error[:1000]
    return _short(body) or "no explanation"


def _short(body: bytes) -> str:
    return body[:200].decode("utf-8", "replace")
