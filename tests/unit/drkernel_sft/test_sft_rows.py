"""Conversations become rows: targets, end tokens, cuts, templates that forget."""

import json

import pytest
from tiny_policy import TEXT, conversation, write_conversations

from drkernel.nano.tokenizer import train_tokenizer
from drkernel.policy.encoding import ChatEncoder
from drkernel.sft import row_files
from drkernel.sft.chat_rows import conversation_rows, make_rows
from drkernel.sft.conversations import Conversation, read_split
from drkernel.sft.row_files import kept_rows
from drkernel.sft.settings import DataSettings
from drkernel.types import Message
from kernelgym.errors import UsageError

FORGETS = (
    "{%- for m in messages -%}{{ '<|im_start|>' + m['role'] + '\n' }}"
    "{%- if m['role'] == 'assistant' and not loop.last -%}{{ m['content'].split('#')[0] }}"
    "{%- else -%}{{ m['content'] }}{%- endif -%}{{ '<|im_end|>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([TEXT] * 4, 384)


def messages_of(number, turns=2):
    return [Message.model_validate(message) for message in conversation(number, turns)]


def trained_text(tokenizer, row):
    return tokenizer.decode(row.ids_L[row.trained_L])


def test_targets_are_the_answers_and_their_end(tokenizer):
    (row,) = conversation_rows(tokenizer, messages_of(7), by_turn=False)
    assert trained_text(tokenizer, row) == "x * 7\n<|im_end|>x * 8\n<|im_end|>"
    whole = tokenizer.apply_chat_template(conversation(7), tokenize=False).rstrip("\n")
    assert tokenizer.decode(row.ids_L) == whole


def test_prompt_ids_are_those_that_a_policy_is_given(tokenizer):
    (row,) = conversation_rows(tokenizer, messages_of(7), by_turn=False)
    prompt = tokenizer.apply_chat_template(
        conversation(7)[:3], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    assert row.ids_L[: len(ids)].tolist() == ids


def test_text_never_becomes_a_control_token(tokenizer):
    said = "<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>"
    messages = [Message(role="user", content=said), Message(role="assistant", content=said)]
    (row,) = conversation_rows(tokenizer, messages, by_turn=False)
    ids = row.ids_L.tolist()
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert ids.count(start) == 2 and ids.count(end) == 2 and ids[-1] == end
    encoder = ChatEncoder(tokenizer)
    prompt = list(encoder.prompt_ids(messages[:1]))
    assert ids[: len(prompt)] == prompt and not row.trained_L[: len(prompt)].any()


def test_turns_as_rows(tokenizer):
    rows = conversation_rows(tokenizer, messages_of(7), by_turn=True)
    assert [trained_text(tokenizer, row) for row in rows] == [
        "x * 7\n<|im_end|>",
        "x * 8\n<|im_end|>",
    ]


def test_a_template_that_forgets_makes_rows_of_turns():
    tokenizer = train_tokenizer([TEXT] * 4, 384)
    tokenizer.chat_template = FORGETS
    messages = [
        Message(role="user", content="a"),
        Message(role="assistant", content="b#c"),
        Message(role="user", content="d"),
        Message(role="assistant", content="e#f"),
    ]
    rows, counts = make_rows(tokenizer, [Conversation(tuple(messages), "g")], max_tokens=200)
    assert counts.by_turn and counts.rows == 2
    assert [trained_text(tokenizer, row) for row in rows] == ["b#c<|im_end|>", "e#f<|im_end|>"]
    # the second prompt shows the first answer as the template does
    assert "b<|im_end|>" in tokenizer.decode(rows[1].ids_L)
    with pytest.raises(UsageError, match="changes earlier turns"):
        conversation_rows(tokenizer, messages, by_turn=False)


def test_long_rows_are_cut_on_the_right_and_counted(tokenizer):
    conversations = [Conversation(tuple(messages_of(n)), str(n)) for n in range(3)]
    whole, _ = make_rows(tokenizer, conversations, max_tokens=1000)
    first = min(row.trained_L.argmax() for row in whole)
    rows, counts = make_rows(tokenizer, conversations, max_tokens=int(first) + 2)
    assert counts.truncated == 3 and counts.empty == 0
    assert all(row.tokens == first + 2 for row in rows)
    assert rows[0].ids_L.tolist() == whole[0].ids_L[: first + 2].tolist()
    with pytest.raises(UsageError, match="prompts longer"):
        make_rows(tokenizer, conversations, max_tokens=3)


def test_held_out_conversations_share_no_task(tmp_path):
    path = tmp_path / "data.jsonl"
    rows = [{"messages": conversation(n), "task": f"t{n % 20}"} for n in range(200)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = DataSettings(files=(str(path),), group_column="task", eval_share=0.3)
    split = read_split(settings)
    train, held_out = ({c.group for c in part} for part in (split.train, split.held_out))
    assert train and held_out and not train & held_out
    assert len(split.train) + len(split.held_out) == 200


def test_parquet_is_read_like_jsonl(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"messages": conversation(n), "task": f"t{n}"} for n in range(4)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    lines = write_conversations(tmp_path / "a.jsonl", 4)
    read = [
        read_split(DataSettings(files=(str(path),), group_column="task", eval_share=0))
        for path in (tmp_path / "a.parquet", lines)
    ]
    assert read[0] == read[1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"chat": []}', "has no column 'messages'; it has: chat"),
        ('{"messages": [{"role": "robot", "content": ""}]}', "needs a role"),
        ('{"messages": [{"role": "user", "content": ""}]}', "nothing to learn"),
    ],
)
def test_what_is_no_conversation_is_named_by_row(tmp_path, line, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({"messages": conversation(1)}) + "\n" + line + "\n")
    with pytest.raises(UsageError, match=message) as caught:
        read_split(DataSettings(files=(str(path),)))
    assert "bad.jsonl:2" in str(caught.value)


def test_rows_are_kept_and_made_again_for_other_data(tokenizer, tmp_path, monkeypatch):
    talks = [Conversation(tuple(messages_of(n)), str(n)) for n in range(3)]

    def rows(conversations, longest=64):
        return kept_rows(
            tmp_path / "rows", tokenizer, conversations, max_tokens=longest, layout="auto"
        )

    made, counts = rows(talks)
    with monkeypatch.context() as patch:
        patch.setattr(row_files, "make_rows", None)  # nothing is tokenised any more
        again, same_counts = rows(talks)
    assert same_counts == counts and len(again) == len(made)
    for one, other in zip(made, again, strict=True):
        assert one.ids_L.tolist() == other.ids_L.tolist()
        assert one.trained_L.tolist() == other.trained_L.tolist()
    assert len(rows(talks[:2])[0]) == 2
    longest = max(row.tokens for row in made) - 1
    assert rows(talks, longest=longest)[1].truncated >= 1
    assert len(list((tmp_path / "rows").iterdir())) == 3
    assert rows([]) == make_rows(tokenizer, [], max_tokens=64)
