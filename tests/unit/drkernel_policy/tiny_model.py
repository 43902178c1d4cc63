"""A Qwen3 of 100 thousand random parameters, and a tokenizer trained on a few words."""

import contextlib

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from drkernel.policy.in_process import TransformersPolicy
from drkernel.policy.settings import TransformersSettings
from drkernel.prompts.chat import chat_format

TEXTS = ["def forward(self, x): return x", "hello there, kernel", "import torch", "0123456789"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def make_tokenizer(*, template=True):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    made.add_tokens(["<think>", "</think>"])
    if template:
        made.chat_template = chat_format("qwen3-thinking").template
    return made


def make_model(tokenizer, *, seed=0, context=256, layers=2):
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.25,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config).to(torch.float32)


@contextlib.asynccontextmanager
async def tiny_policy(*, seed=0, tokenizer=None, context=256, **settings):
    tokenizer = tokenizer or make_tokenizer()
    model = make_model(tokenizer, seed=seed, context=context)
    policy = TransformersPolicy(model, tokenizer, TransformersSettings(**settings))
    policy.model = model
    try:
        yield policy
    finally:
        await policy.aclose()


def full_forward(model, prompt_ids, token_ids):
    """Logits [L, V] for each sampled token, from one pass without any cache."""
    ids = torch.tensor([[*prompt_ids, *token_ids]])
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits[0].float()
    return logits[len(prompt_ids) - 1 : -1]
