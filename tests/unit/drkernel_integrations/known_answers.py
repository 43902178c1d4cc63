"""Answers with known verdicts, and a judge that knows them by a word in the source."""

from kernelgym.schema import EvalResult, Failure, Finding, Outcome, Task

TASK = Task(name="t/add", reference="class Model: ...\n")


def answer(word, entry_point="ModelNew"):
    return f"I will fuse.\n```python\nclass {entry_point}:\n    '''{word}'''\n```\n"


NO_CODE = "I would rather not."
CUT = "```python\nclass ModelNew:"


def verdict(source):
    if "lost" in source:
        return None
    if "reference" in source:
        return _failed(Outcome.INFRASTRUCTURE, "reference_load_error")
    if "wrong" in source:
        return _failed(Outcome.MISMATCH, "value_mismatch")
    if "hack" in source:
        seen = Finding(id="no_own_kernel", severity="hack", message="m", evidence="claimed")
        return _failed(Outcome.HACK, "no_own_kernel", (seen,))
    fast = 2.0 if "fast" in source else 1.0
    timed = {} if "untimed" in source else {"speedup": fast, "coverage": 0.5}
    return EvalResult(task="t/add", outcome=Outcome.CORRECT, correct=True, **timed)


def _failed(outcome, code, findings=()):
    failure = Failure(stage="compare", code=code, message="m")
    return EvalResult(
        task="t/add", outcome=outcome, correct=False, failure=failure, findings=findings
    )


class KnownJudge:
    """Counts what it is asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, submissions):
        self.asked.append(list(submissions))
        return [verdict(submission.source) for submission in submissions]
