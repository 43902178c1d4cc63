"""A byte-level BPE tokenizer trained on a run's own texts.

Every byte is a token, so there is nothing it cannot write. A line break and the indentation after
it are one piece, names keep their underscores, digits stay single. Chats are written as Qwen3
writes them without thinking.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
SPECIAL = (END_OF_TEXT, TURN_START, TURN_END)
PIECES = r"\n *|[ ]?[A-Za-z_]+|[0-9]|[ ]?[^\sA-Za-z0-9_]+|\s+"
"""What a token never reaches across."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)
SMALLEST_VOCABULARY = 256 + len(SPECIAL)


def train_tokenizer(texts: Iterable[str], vocabulary: int, *, context_tokens: int = 4096) -> Any:
    """A tokenizer of transformers with at most ``vocabulary`` tokens; the same texts, the same one.

    Raises:
        ValueError: for a vocabulary that does not hold the bytes.
    """
    if vocabulary < SMALLEST_VOCABULARY:
        raise ValueError(f"the vocabulary needs at least {SMALLEST_VOCABULARY} tokens")
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[TURN_START],
        chat_template=CHAT_TEMPLATE,
        model_max_length=context_tokens,
        clean_up_tokenization_spaces=False,
    )
