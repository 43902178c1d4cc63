"""``kernelgym watch`` where there is nothing to follow. Not covered: a gym (tests/service)."""

from contextlib import nullcontext

import pytest

from kernelgym.api import Problem
from kernelgym.cli import watch as verb
from kernelgym.cli.main import main
from kernelgym.client import GymRefused


class ForgetfulGym:
    def __init__(self, code):
        self.code = code

    def get(self, evaluation_id):
        raise GymRefused(
            Problem(
                type="about:blank", title="no", status=404, code=self.code, detail="no such thing"
            )
        )


@pytest.mark.parametrize(
    ("code", "words"),
    [("not_found", "no evaluation 'abc'"), ("forbidden", "forbidden: no such thing")],
)
@pytest.mark.parametrize("flag", [[], ["--cancel"]])
def test_an_id_that_the_gym_does_not_know_is_named(code, words, flag, capsys, monkeypatch):
    monkeypatch.setattr(verb, "connect", lambda *_: nullcontext(ForgetfulGym(code)))
    assert main(["watch", "abc", *flag]) == 2
    error, step = capsys.readouterr().err.splitlines()
    assert words in error
    assert step.startswith("  try: ")
