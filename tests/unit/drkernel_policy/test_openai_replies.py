"""Replies of an endpoint, sorted: nothing about them is trusted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drkernel.policy.replies import Again, Answer, Overflow, Refusal, Reply, read, retry_after_s

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "error",
                    "code",
                    "usage",
                    "prompt_tokens",
                    "completion_tokens",
                    "cost",
                    "logprobs",
                    "logprob",
                    "token_ids",
                    "finish_reason",
                    "prompt_tokens_details",
                    "cached_tokens",
                    "text",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from([200, 400, 404, 429, 500]), st.booleans())
def test_any_json_is_sorted(data, status, need_ids):
    verdict = read(Reply(status, json.dumps(data).encode()), need_ids=need_ids)
    assert isinstance(verdict, Answer | Again | Overflow | Refusal)
    assert status == 200 or not isinstance(verdict, Answer)


@given(JSON, JSON, JSON, JSON, JSON)
def test_an_answer_with_anything_in_its_fields_can_be_stored(content, usage, probs, ids, thought):
    message = {"content": content, "reasoning_content": thought}
    choice = {"message": message, "logprobs": probs, "token_ids": ids, "finish_reason": "stop"}
    data = {"choices": [choice], "usage": usage, "prompt_token_ids": ids}
    verdict = read(Reply(200, json.dumps(data).encode()))
    if isinstance(verdict, Answer):
        (verdict.text + verdict.reasoning).encode()
        if verdict.logprobs is not None:
            assert len(verdict.logprobs) == len(verdict.token_ids)
        if verdict.usage is not None:
            assert verdict.usage.cached_tokens <= verdict.usage.prompt_tokens


@given(st.binary(max_size=200), st.integers(200, 599))
def test_any_bytes_are_sorted(body, status):
    assert not isinstance(read(Reply(status, body)), Answer)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "99999"}, 600.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "5", "retry-after-ms": "250"}, 0.25),
    ],
)
def test_how_long_to_wait(headers, seconds):
    assert retry_after_s(headers, now_s=10.0) == seconds


@pytest.mark.parametrize(
    ("text", "room"),
    [
        (
            "maximum context length is 4096 tokens. However, you requested 5000 tokens "
            "(3000 in the messages, 2000 in the completion)",
            1096,
        ),
        (
            "'max_tokens' is too large: 9. This model's maximum context length is 100 tokens "
            "and your request has 60 input tokens",
            40,
        ),
        ("maximum context length is 100 tokens", None),
    ],
)
def test_room_that_is_left(text, room):
    verdict = read(Reply(400, json.dumps({"error": {"message": text}}).encode()))
    assert verdict == Overflow(text, room)
