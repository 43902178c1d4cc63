"""The scripted policy, the names of policies, and the ledger."""

import subprocess
import sys

import pytest

from drkernel.policy import (
    Ledger,
    OpenAISettings,
    PolicySettings,
    PriceSettings,
    ScriptedPolicy,
    open_policy,
)
from drkernel.policy.accounting import Usage, cost_of
from drkernel.types import Generation, Message, Policy, Sampling
from kernelgym.errors import UsageError


def talk(*answers):
    messages = [Message(role="user", content="go")]
    for answer in answers:
        messages += [
            Message(role="assistant", content=answer),
            Message(role="user", content="again"),
        ]
    return messages


async def said(policy, messages, key="t/0/0", **sampling):
    return await policy.generate(messages, Sampling(**sampling), key=key)


async def test_answers_by_turn_and_the_last_one_again():
    policy = ScriptedPolicy(["one", "two"])
    assert isinstance(policy, Policy)
    texts = [(await said(policy, talk(*"abc"[:n]))).text for n in range(4)]
    assert texts == ["one", "two", "two", "two"]


async def test_answers_by_task():
    policy = ScriptedPolicy({"level1": "short", "level1/3": ["first", "second"]})
    assert (await said(policy, talk(), key="level1/3/0/0")).text == "first"
    assert (await said(policy, talk("x"), key="level1/3/5/1")).text == "second"
    assert (await said(policy, talk(), key="level1/31/0/0")).text == "short"
    with pytest.raises(UsageError, match="no answer for 'level2"):
        await said(policy, talk(), key="level2/3/0/0")


async def test_a_function_sees_messages_sampling_and_key():
    policy = ScriptedPolicy(
        lambda messages, sampling, key: f"{len(messages)} {key} {sampling.seed}"
    )
    assert (await said(policy, talk("x"), key="k", seed=4)).text == "3 k 4"
    ready = Generation(text="t", finish="length", completion_tokens=9)
    assert await said(ScriptedPolicy(lambda *_: ready), talk()) == ready


async def test_long_answers_are_cut_and_full_prompts_are_missing():
    policy = ScriptedPolicy(["x" * 100], context_tokens=40)
    cut = await said(policy, talk(), max_tokens=10)
    assert (cut.finish, cut.text, cut.completion_tokens) == ("length", "x" * 30, 10)
    full = await said(policy, [Message(role="user", content="y" * 200)])
    assert (full.finish, full.completion_tokens) == ("context", 0)
    assert (policy.ledger.calls, policy.ledger.overflowed) == (1, 1)


async def test_versions_are_noted():
    policy = ScriptedPolicy(["x"])
    await policy.push_weights({}, 7)
    await policy.aclose()
    assert policy.version == 7


async def test_policies_by_name():
    policy = open_policy(
        PolicySettings(name="openai:some/model:v2", openai=OpenAISettings(context_tokens=4096))
    )
    assert (policy.name, policy.context_tokens) == ("openai:some/model:v2", 4096)
    await policy.aclose()
    for name in ("", "openai:", "gpt", "vllm:x"):
        with pytest.raises(UsageError) as refused:
            open_policy(PolicySettings(name=name))
        assert "openai:MODEL" in (refused.value.hint or "")


def test_prices():
    usage = Usage(1_000_000, 1_000_000, cached_tokens=500_000)
    price = PriceSettings(prompt_usd=2.0, completion_usd=8.0)
    assert cost_of(usage, price) == pytest.approx(10.0)
    assert cost_of(usage, price.model_copy(update={"cached_usd": 0.0})) == pytest.approx(9.0)
    assert cost_of(usage, PriceSettings(prompt_usd=1.0)) is None
    assert cost_of(Usage(1, 1, cost_usd=0.5), price) == 0.5


def test_the_ledger_as_numbers():
    ledger = Ledger()
    ledger.accept(Usage(10, 5), None)
    ledger.waste(Usage(10, 0), 0.5)
    ledger.retried["http_500"] += 1
    flat = ledger.as_metrics()
    assert (flat["calls"], flat["unpriced"], flat["cost_usd"]) == (1, 1, 0.5)
    assert (flat["wasted_prompt_tokens"], flat["retried_http_500"]) == (10, 1)
    assert all(isinstance(value, float) for value in flat.values())


def test_naming_a_policy_imports_nothing_heavy():
    code = (
        "import sys, drkernel.policy, drkernel.prompts, drkernel.types, drkernel.prompts.chat\n"
        "print([m for m in ('torch', 'transformers', 'httpx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
