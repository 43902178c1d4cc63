"""Finding the candidate in an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drkernel.prompts import extract

CODE = "class ModelNew:\n    pass\n"
OTHER = "print('hello')\n"


def fence(code, info="python", mark="```"):
    return f"{mark}{info}\n{code}{mark}\n"


@pytest.mark.parametrize(
    "text",
    [
        fence(CODE),
        fence(CODE, info=""),
        fence(CODE, info="Python title=x"),
        fence(CODE, mark="~~~~"),
        "Plan.\n" + fence(OTHER) + "Better:\n" + fence(CODE) + "Done.",
        fence(CODE) + "Run it with\n" + fence("python x.py\n", info="bash"),
        fence(CODE) + "Test:\n" + fence(OTHER),
        fence("old = 1\n") + fence(CODE),
        "<think>" + fence(OTHER) + "</think>\n" + fence(CODE),
        "thoughts, opened by the template</think>" + fence(CODE),
        fence(CODE).replace("\n", "\r\n"),
        "  " + fence(CODE),
    ],
)
def test_the_right_fence_is_found(text):
    found = extract(text)
    assert (found.how, found.code) == ("fence", CODE)


def test_of_two_answers_the_last_counts():
    assert extract(fence(CODE) + fence(CODE + "x = 2\n")).code == CODE + "x = 2\n"


@pytest.mark.parametrize("marker", ["code", "kernel", "answer"])
def test_markers(marker):
    found = extract(f"text <{marker}>\n{CODE}</{marker}> text")
    assert (found.how, found.code) == ("marker", CODE)


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("```python\n" + CODE, "stop"),
        ("```python\n" + CODE, "length"),
        ("<code>" + CODE, "length"),
        ("<think>I wonder", "length"),
        (fence("x\n", info="text") + "```python\nclass", "length"),
    ],
)
def test_what_was_never_closed_is_truncated_and_not_used(text, finish):
    found = extract(text, finish)
    assert (found.how, found.code) == ("truncated", None)
    assert found.note


def test_a_complete_answer_survives_an_unfinished_postscript():
    assert extract(fence(CODE) + "Or:\n```python\nclass Mod", "length").code == CODE


@pytest.mark.parametrize(
    "text", ["", "I cannot.", CODE, fence(""), fence("{}\n", info="json"), "inline `ModelNew`"]
)
def test_no_code_is_its_own_outcome(text):
    found = extract(text)
    assert (found.how, found.code) == ("none", None)
    assert found.note


@pytest.mark.parametrize("code", ["class ModelNew(:\n", "x = '\x00'\n", "(" * 2000 + "\n"])
def test_source_that_python_refuses_is_handed_on(code):
    found = extract(fence(code))
    assert (found.how, found.code) == ("unparsable", code)
    assert "not valid Python" in found.note


def test_another_entry_point():
    text = fence("class Fast: ...\n") + fence("class ModelNew: ...\n")
    assert extract(text, entry_point="Fast").code == "class Fast: ...\n"


def test_too_long_a_source_is_not_used():
    found = extract(fence("x = 1\n" * 200_000))
    assert found.code is None
    assert "longer" in found.note


def test_a_fence_inside_a_longer_fence_is_text():
    code = 'class ModelNew:\n    """\n```\n"""\n'
    assert extract(f"````python\n{code}````").code == code


@given(st.text(st.sampled_from("`~\n <>/abcodethinkpy\ud800")), st.sampled_from(["stop", "length"]))
def test_any_text_gives_an_answer_that_can_be_stored(text, finish):
    found = extract(text, finish)
    assert (found.code is None) == (found.how in ("none", "truncated"))
    assert found.model_validate_json(found.model_dump_json()) == found
