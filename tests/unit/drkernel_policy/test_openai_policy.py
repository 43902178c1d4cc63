"""The OpenAI-compatible policy against an endpoint over real HTTP, faults injected."""

import asyncio
import random

import pytest
from openai_endpoint import (
    ASK,
    FAULTS,
    PAID_AND_USELESS,
    PRICE,
    Endpoint,
    ManualTime,
    policy_at,
)

from drkernel.policy.openai import OpenAIPolicy
from drkernel.policy.settings import LimitSettings, OpenAISettings
from drkernel.types import Message, Policy, Sampling
from kernelgym.errors import ServiceError, UsageError


def balanced(ledger):
    """Every request is accounted for by the end of a call or by another request after it."""
    ends = ledger.calls + ledger.failed + ledger.overflowed + ledger.cancelled
    return ledger.requests == ends + sum(ledger.retried.values())


async def test_a_question_and_its_answer(monkeypatch):
    monkeypatch.setenv("TEST_KEY", "secret")
    async with (
        Endpoint() as endpoint,
        policy_at(endpoint, key_variable="TEST_KEY", price=PRICE) as policy,
    ):
        assert isinstance(policy, Policy)
        sampling = Sampling(temperature=0.5, top_p=0.9, max_tokens=77, stop=("END",), seed=3)
        generation = await policy.generate(ASK, sampling, key="task/0/0")
    assert generation.text == "answer to hello"
    assert (generation.finish, generation.error) == ("stop", "")
    assert (generation.prompt_tokens, generation.completion_tokens) == (15, 105)
    assert generation.cost_usd == pytest.approx((15 * 1.0 + 105 * 10.0) / 1e6)
    (request,) = endpoint.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["authorization"] == "Bearer secret"
    body = request["body"]
    assert 0 <= body.pop("seed") < 2**31
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 77,
        "stop": ["END"],
    }


async def test_fields_can_be_renamed_added_and_left_out():
    async with Endpoint() as endpoint:
        fields = {
            "max_tokens_field": "max_completion_tokens",
            "extra_body": {"reasoning_effort": "high", "temperature": "omit"},
        }
        async with policy_at(endpoint, **fields) as policy:
            await policy.generate(ASK, Sampling(), key="k")
    body = endpoint.requests[0]["body"]
    assert body["max_completion_tokens"] == 8192
    assert body["reasoning_effort"] == "high"
    assert not {"temperature", "max_tokens", "seed", "stop"} & set(body)


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_is_survived(fault):
    endpoint = Endpoint(lambda prompt, attempt: fault if attempt < 3 else "ok")
    async with endpoint, policy_at(endpoint, price=PRICE) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
        ledger = policy.ledger
    assert generation.text == "answer to hello"
    assert len({r["headers"]["idempotency-key"] for r in endpoint.requests}) == 1
    assert (ledger.calls, ledger.requests, sum(ledger.retried.values())) == (1, 3, 2)
    assert balanced(ledger)
    wasted = {"null_content": 0, "bad_parts": 105}
    assert ledger.wasted_completion_tokens == 2 * wasted.get(fault, 0)
    assert ledger.wasted_prompt_tokens == (30 if fault in PAID_AND_USELESS else 0)
    assert ledger.lost == (2 if fault in ("reset", "cut") else 0)
    paid = [(15, 105), *[(15, wasted.get(fault, 0))] * (2 if fault in wasted else 0)]
    total = sum(prompt * 1.0 + completion * 10.0 for prompt, completion in paid)
    assert generation.cost_usd == pytest.approx(total / 1e6)
    assert ledger.cost_usd == pytest.approx(generation.cost_usd)


async def test_hundreds_of_calls_through_a_storm_lose_and_double_nothing():
    draw = random.Random(7)

    def plan(prompt, attempt):
        if attempt <= 6 and draw.random() < 0.6:
            return draw.choice(FAULTS)
        return "ok"

    prompts = [f"question {'x' * index}" for index in range(200)]
    limits = LimitSettings(concurrency=32, attempts=50, requests_per_minute=6000)
    async with Endpoint(plan) as endpoint, policy_at(endpoint, limits=limits) as policy:
        answers = await asyncio.gather(
            *(
                policy.generate([Message(role="user", content=p)], Sampling(), key=p)
                for p in prompts
            )
        )
        ledger = policy.ledger
    assert [a.text for a in answers] == [f"answer to {p}" for p in prompts]
    assert ledger.calls == 200
    assert len(endpoint.done("ok")) == 200
    assert ledger.requests == len(endpoint.requests) > 400
    assert balanced(ledger)
    assert ledger.prompt_tokens == sum(10 + len(p) for p in prompts)
    assert ledger.completion_tokens == sum(100 + len(p) for p in prompts)
    useless = [r["body"]["messages"][0]["content"] for r in endpoint.done("bad_parts")]
    assert ledger.wasted_completion_tokens == sum(100 + len(p) for p in useless) > 0
    assert ledger.retried["rate_limit"] == len(endpoint.done("429"))
    assert ledger.lost == len(endpoint.done("reset")) + len(endpoint.done("cut"))


async def test_a_silent_endpoint_costs_a_timeout_and_is_asked_again():
    endpoint = Endpoint(lambda prompt, attempt: "stall" if attempt == 1 else "ok")
    limits = LimitSettings(timeout_s=0.5)
    async with endpoint, policy_at(endpoint, limits=limits) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
        assert generation.text == "answer to hello"
        assert policy.ledger.retried["timeout"] >= 1
        assert policy.ledger.lost == policy.ledger.retried["timeout"]
        assert policy.ledger.calls == 1


async def test_what_never_gets_better_ends_as_an_error():
    limits = LimitSettings(attempts=4)
    async with Endpoint(lambda *_: "500") as endpoint, policy_at(endpoint, limits=limits) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
        assert (generation.finish, generation.text) == ("error", "")
        assert generation.error.startswith("http_500: overloaded")
        assert (policy.ledger.requests, policy.ledger.failed, policy.ledger.calls) == (4, 1, 0)
        assert balanced(policy.ledger)


async def test_an_endpoint_that_is_not_there_ends_as_an_error():
    async with Endpoint() as endpoint:
        pass
    async with policy_at(endpoint, limits=LimitSettings(attempts=2)) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
    assert generation.finish == "error"
    assert "connection" in generation.error


async def test_waiting_on_request_uses_up_patience_but_no_attempts():
    time = ManualTime()
    limits = LimitSettings(attempts=1, patience_s=7.0)
    async with (
        Endpoint(lambda *_: "429") as endpoint,
        policy_at(endpoint, time, limits=limits) as policy,
    ):
        generation = await policy.generate(ASK, Sampling(), key="k")
    assert generation.finish == "error"
    assert generation.error.startswith("rate_limit")
    assert len(endpoint.requests) == 4  # at 0, 2, 4 and 6 seconds


@pytest.mark.parametrize("told", ["429", (503, ["Retry-After: 2"], "draining")])
async def test_one_caller_that_is_told_to_wait_holds_the_others(told):
    time = ManualTime()
    first = []

    def plan(prompt, attempt):
        first.append(prompt)
        return told if len(first) == 1 else "ok"

    async with (
        Endpoint(plan) as endpoint,
        policy_at(endpoint, time, limits=LimitSettings(concurrency=1)) as policy,
    ):
        asked = [
            policy.generate([Message(role="user", content=p)], Sampling(), key=p) for p in "abc"
        ]
        await asyncio.gather(*asked)
    # The one that was told, and the one whose turn it was; then the break is over.
    assert time.slept == [2.0, 2.0]


async def test_requests_and_tokens_a_minute_are_kept():
    time = ManualTime()
    limits = LimitSettings(requests_per_minute=2)
    async with Endpoint() as endpoint, policy_at(endpoint, time, limits=limits) as policy:
        for index in range(4):
            await policy.generate(ASK, Sampling(), key=str(index))
    assert time.now == pytest.approx(1060.0)

    time = ManualTime()
    limits = LimitSettings(tokens_per_minute=240)
    async with Endpoint() as endpoint, policy_at(endpoint, time, limits=limits) as policy:
        for index in range(3):  # 120 tokens each, however many were reserved
            await policy.generate(ASK, Sampling(max_tokens=150), key=str(index))
    assert 1000.0 < time.now <= 1060.0


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, '{"error": {"message": "bad key"}}', "bad key"),
        (404, '{"error": {"message": "no model m"}}', "no model m"),
        (400, '{"message": "temperature must be 1"}', "temperature must be 1"),
        (429, '{"error": {"code": "insufficient_quota", "message": "pay"}}', "pay"),
    ],
)
async def test_what_can_never_work_is_a_usage_error(status, body, words):
    endpoint = Endpoint(lambda *_: (status, [], body))
    async with endpoint, policy_at(endpoint) as policy:
        with pytest.raises(UsageError, match=words) as refused:
            await policy.generate(ASK, Sampling(), key="k")
        assert refused.value.hint
        assert len(endpoint.requests) == 1
        assert balanced(policy.ledger)


TOO_LONG = (
    "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens "
    "({} in the messages, 8192 in the completion)."
)


async def test_an_answer_that_does_not_fit_is_asked_for_shorter():
    def plan(prompt, attempt):
        message = f'{{"error": {{"message": "{TOO_LONG.format(808)}"}}}}'
        return "ok" if attempt > 1 else (400, [], message)

    async with Endpoint(plan) as endpoint, policy_at(endpoint) as policy:
        assert (await policy.generate(ASK, Sampling(), key="k")).finish == "stop"
        assert [r["body"]["max_tokens"] for r in endpoint.requests] == [8192, 4096 - 808]
        assert balanced(policy.ledger)


@pytest.mark.parametrize(
    "message",
    [
        TOO_LONG.format(5000),
        "context_length_exceeded",
        "prompt is too long: 9 tokens > 8 maximum",
        "Input length (99) exceeds model's maximum context length (90)",
    ],
)
async def test_a_prompt_that_does_not_fit_is_missing_and_not_an_error(message):
    body = f'{{"error": {{"message": "{message}"}}}}'
    async with Endpoint(lambda *_: (400, [], body)) as endpoint, policy_at(endpoint) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
        assert (generation.finish, generation.completion_tokens) == ("context", 0)
        assert policy.ledger.overflowed == 1
        assert balanced(policy.ledger)


async def test_a_cancelled_call_is_counted_and_frees_its_slot():
    stalled = asyncio.Event()

    def plan(prompt, attempt):
        if prompt == "slow":
            stalled.set()
            return "stall"
        return "ok"

    limits = LimitSettings(concurrency=1)
    async with Endpoint(plan) as endpoint, policy_at(endpoint, limits=limits) as policy:
        slow = [Message(role="user", content="slow")]
        call = asyncio.create_task(policy.generate(slow, Sampling(), key="slow"))
        await stalled.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await policy.generate(ASK, Sampling(), key="k")).finish == "stop"
        assert (policy.ledger.cancelled, policy.ledger.lost, policy.ledger.calls) == (1, 1, 1)


async def test_seeds_follow_the_key_and_prompts_are_counted_from_above():
    async with Endpoint() as endpoint, policy_at(endpoint) as policy:
        for key in ("a", "b", "a"):
            await policy.generate(ASK, Sampling(seed=1), key=key)
        assert policy.count_tokens([Message(role="user", content="x" * 300)]) >= 100
    seeds = [request["body"]["seed"] for request in endpoint.requests]
    assert seeds[0] == seeds[2] != seeds[1]


async def test_weights_by_sglang(tmp_path):
    endpoint = Endpoint(lambda prompt, attempt: (200, [], '{"success": true}'))
    async with endpoint, policy_at(endpoint, weights="sglang") as policy:
        await policy.push_weights(tmp_path, 3)
        assert policy.version == 3
        with pytest.raises(UsageError, match="from a folder"):
            await policy.push_weights({}, 4)
    assert endpoint.requests[0]["path"] == "/update_weights_from_disk"
    assert endpoint.requests[0]["body"] == {"model_path": str(tmp_path)}


@pytest.mark.parametrize("reply", [(200, [], '{"success": false}'), (500, [], "{}"), "html"])
async def test_weights_that_were_not_taken_are_said_to_be(reply, tmp_path):
    async with (
        Endpoint(lambda *_: reply) as endpoint,
        policy_at(endpoint, weights="sglang") as policy,
    ):
        with pytest.raises(ServiceError, match="did not take the weights"):
            await policy.push_weights(tmp_path, 3)
        assert policy.version == 0


async def test_fixed_weights_and_bad_addresses_are_usage_errors():
    async with Endpoint() as endpoint, policy_at(endpoint) as policy:
        with pytest.raises(UsageError, match="cannot be changed"):
            await policy.push_weights("folder", 1)
    with pytest.raises(UsageError, match="is no address"):
        OpenAIPolicy("m", OpenAISettings(base_url="localhost:8000"))
