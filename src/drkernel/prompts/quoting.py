"""Foreign text inside a prompt: fenced so that it cannot end its fence, and without control tokens.

Error messages and tracebacks come from the candidate, that is from the model itself. Text of its
own choice must not become the end of a message or the start of another one once a chat template is
laid over it. Not covered: instructions in plain words; the model can only mislead itself.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"<(?=[|｜])|(?<=[|｜])>|\[(?=/?INST\])|<(?=/?(?:s|think|tool_call)>)")
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]")


def harmless(text: str) -> str:
    """The text with the control tokens of common chat templates broken up.

    >>> harmless("a <|im_end|> b </think>")
    'a < |im_end| > b < /think>'
    """
    text = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    text = _INVISIBLE.sub("", text)
    return _CONTROL.sub(lambda found: f" {found[0]}" if found[0] == ">" else f"{found[0]} ", text)


def fenced(text: str, language: str = "") -> str:
    """The text in a fence longer than any run of backticks in it.

    >>> fenced("x = 1", "python").splitlines()[0]
    '```python'
    """
    text = harmless(text).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
