"""Both families of chat templates on the whole way: what is trained on is what a policy is asked.

The tokenizers are made here, with the control tokens of each family; real ones differ in their
vocabulary only.
"""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from drkernel.nano.model import Shape, make_model
from drkernel.policy import TransformersSettings
from drkernel.policy.encoding import ChatEncoder
from drkernel.policy.in_process import TransformersPolicy
from drkernel.prompts.chat import FORMATS, chat_format
from drkernel.sft.chat_rows import conversation_rows
from drkernel.types import Message, Sampling

TALK = (
    Message(role="user", content="write a kernel"),
    Message(role="assistant", content="class ModelNew: ...<|eot_id|>"),
    Message(role="user", content="it is slow"),
    Message(role="assistant", content="class ModelNew: pass"),
)
SHAPE = Shape(hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, mlp=64, context=512)


def tokenizer_of(name, *, template):
    """A tokenizer of the family, with a chat template or without one."""
    form = chat_format(name)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=list(form.controls),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([message.content for message in TALK], trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=form.end, pad_token=form.controls[-1]
    )
    if template:
        made.chat_template = form.template
    return made


@pytest.mark.parametrize("name", FORMATS)
def test_rows_hold_the_prompts_that_a_policy_is_given(name):
    tokenizer = tokenizer_of(name, template=True)
    rows = conversation_rows(tokenizer, TALK, by_turn=True)
    encoders = [ChatEncoder(tokenizer)]
    if name != "qwen3":  # of its two ways to ask, the template alone takes the thinking one
        encoders.append(ChatEncoder(tokenizer_of(name, template=False), name))
    assert len(rows) == 2
    for row, past in zip(rows, (TALK[:1], TALK[:3]), strict=True):
        prompt = row.ids_L[~row.trained_L].tolist()
        assert all(list(encoder.prompt_ids(past)) == prompt for encoder in encoders)
        end = tokenizer.convert_tokens_to_ids(FORMATS[name].end)
        assert row.ids_L[-1] == end and (row.ids_L[row.trained_L] == end).sum() == 1
    assert tokenizer.decode(rows[1].ids_L[rows[1].trained_L]) == (
        "class ModelNew: pass" + FORMATS[name].end
    )


@pytest.mark.parametrize("name", FORMATS)
async def test_an_answer_ends_with_the_familys_own_token(name):
    tokenizer = tokenizer_of(name, template=False)
    end = tokenizer.convert_tokens_to_ids(FORMATS[name].end)
    tokenizer.eos_token = FORMATS[name].controls[0]  # the format knows it by itself
    model = make_model(SHAPE, tokenizer, seed=0)
    model.lm_head = torch.nn.Linear(SHAPE.hidden, len(tokenizer))  # always the end token
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.lm_head.bias.fill_(-100.0)[end] = 100.0
    policy = TransformersPolicy(model, tokenizer, TransformersSettings(device="cpu", chat=name))
    try:
        said = await policy.generate(TALK[:3], Sampling(max_tokens=40, seed=0), key="k")
    finally:
        await policy.aclose()
    assert (said.finish, said.token_ids, said.text) == ("stop", (end,), "")
