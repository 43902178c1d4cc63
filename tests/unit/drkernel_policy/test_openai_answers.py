"""What is taken from an endpoint's answers: text, reasoning, usage, token ids."""

import pytest
from openai_endpoint import ASK, PRICE, Endpoint, policy_at

from drkernel.policy.settings import LimitSettings
from drkernel.types import Sampling


def choice(message, **fields):
    return {"choices": [{"message": message, "finish_reason": "stop"} | fields]}


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "a", "reasoning_content": "why"}, "a", "why"),
        ({"content": "a", "reasoning": "why"}, "a", "why"),
        ({"content": "<think>why</think>\na"}, "a", "why"),
        ({"content": None, "reasoning_content": "why"}, "", "why"),
        ({"content": None, "refusal": "no"}, "no", ""),
        (
            {"content": [{"type": "thinking", "thinking": "why"}, {"type": "text", "text": "a"}]},
            "a",
            "why",
        ),
        ({"content": "half \ud800 pair"}, "half ? pair", ""),
    ],
)
async def test_reasoning_is_told_apart(message, text, reasoning):
    endpoint = Endpoint()
    endpoint.reply = choice(message)
    async with endpoint, policy_at(endpoint) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
    assert (generation.text, generation.reasoning) == (text, reasoning)
    assert generation.model_validate_json(generation.model_dump_json()) == generation


async def test_a_truncated_answer_is_kept_and_said_to_be():
    endpoint = Endpoint()
    endpoint.reply = choice({"content": "```python\nclass"}, finish_reason="length")
    async with endpoint, policy_at(endpoint) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
    assert (generation.finish, generation.text) == ("length", "```python\nclass")


async def test_usage_details_and_the_endpoints_own_price():
    endpoint = Endpoint()
    endpoint.reply = {
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 12},
            "completion_tokens_details": {"reasoning_tokens": 25},
            "cost": 0.25,
        }
    }
    async with endpoint, policy_at(endpoint, price=PRICE) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
        ledger = policy.ledger
    assert generation.cost_usd == 0.25
    assert (ledger.cached_tokens, ledger.reasoning_tokens) == (12, 25)


async def test_missing_usage_is_estimated_and_said_to_be():
    endpoint = Endpoint()
    endpoint.reply = {"usage": None}
    async with endpoint, policy_at(endpoint) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
        assert generation.completion_tokens == 5
        assert generation.cost_usd is None
        assert (policy.ledger.estimated, policy.ledger.unpriced) == (1, 1)


def with_ids(tokens, logprobs, **choice_fields):
    content = [{"token": t, "logprob": p} for t, p in zip(tokens, logprobs, strict=True)]
    return choice({"content": "a"}, logprobs={"content": content}, **choice_fields)


@pytest.mark.parametrize(
    "reply",
    [
        with_ids(["x", "y"], [-0.5, -1], token_ids=[7, 8], prompt_token_ids=[1, 2, 3]),
        with_ids(["x", "y"], [-0.5, -1], token_ids=[7, 8]) | {"prompt_token_ids": [1, 2, 3]},
        with_ids(["token_id:7", "token_id:8"], [-0.5, -1]) | {"prompt_token_ids": [1, 2, 3]},
    ],
)
async def test_token_ids_and_logprobs(reply):
    endpoint = Endpoint()
    endpoint.reply = reply
    async with endpoint, policy_at(endpoint, token_ids="require") as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
        assert policy.ledger.completion_tokens == 2
    assert (generation.prompt_ids, generation.token_ids) == ((1, 2, 3), (7, 8))
    assert generation.logprobs == (-0.5, -1.0)
    assert (generation.prompt_tokens, generation.completion_tokens) == (3, 2)
    assert endpoint.requests[0]["body"]["return_token_ids"] is True


async def test_answers_without_ids_are_no_answers_where_ids_are_needed():
    endpoint = Endpoint()
    endpoint.reply = with_ids(["x"], [-0.5], token_ids=[7, 8], prompt_token_ids=[1])
    limits = LimitSettings(attempts=2)
    async with endpoint, policy_at(endpoint, token_ids="require", limits=limits) as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
        assert generation.finish == "error"
        assert "no token ids" in generation.error
    async with endpoint, policy_at(endpoint, token_ids="try") as policy:
        generation = await policy.generate(ASK, Sampling(), key="k")
        assert (generation.token_ids, generation.logprobs) == ((7, 8), None)
