"""Tasks from elsewhere are linted in a jail: what they do to it becomes a report."""

from collections.abc import Iterator

import pytest

from kernelgym.schema import Task
from kernelgym.tasks.lint_jail import LintJail

GOOD = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x)
def get_inputs():
    return [torch.randn(8, 16)]
"""


@pytest.fixture(scope="module")
def jail() -> Iterator[LintJail]:
    with LintJail(fallback=True, memory_mb=1024) as jail:
        yield jail


def task(line: str) -> Task:
    return Task(name="t", reference=GOOD.replace("return torch.sin(x)", line))


def test_reports_come_in_the_order_of_the_tasks(jail: LintJail):
    zero = task("return torch.zeros_like(x)")
    reports = list(jail.lint_all([Task(name="good", reference=GOOD), zero], workers=2))
    assert [report.task for report in reports] == ["good", "t"]
    assert reports[0].ok
    assert "accepts_zeros" in [finding.id for finding in reports[1].findings]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("import os; os._exit(0)", "reference_crashed"),
        ("import os; os.kill(os.getpid(), 11)", "reference_crashed"),
        ("\n        while True: pass", "reference_timeout"),
        ("return torch.zeros(1 << 31) + x.sum()", "reference_does_not_fit"),
        ("import os; [os.write(fd, b'no') for fd in range(3, 20)]", "reference_f"),
    ],
)
def test_what_a_task_does_to_its_process_is_told(jail: LintJail, line: str, code: str):
    report = jail.lint(task(line), limit_s=20.0 if "while" not in line else 4.0)
    assert not report.ok
    assert report.findings[0].id.startswith(code), report.findings


def test_the_jail_serves_on_after_a_bad_task(jail: LintJail):
    jail.lint(task("import os; os._exit(1)"))
    assert jail.lint(Task(name="good", reference=GOOD)).ok
