"""Real evaluations whose verdict is known beforehand, each by something of its own.

Every candidate doubles a tensor by a kernel named after a mark that no other candidate has. The
verdict shows the mark, in the name of the kernel that ran or in the message of the failure; one
that is off also shows by how much. So the verdict of another input cannot pass for the own one.
"""

from __future__ import annotations

import random
import re
from typing import Any

from kernelgym.schema import EvalResult, Submission, Task

_REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return 2.0 * x


def get_inputs():
    return [torch.randn(64)]


def get_init_inputs():
    return []
"""

_CANDIDATE = """
import torch
import triton
import triton.language as tl


@triton.jit
def double_{mark}(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, 2.0 * x + {more}, mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        {first}
        out = torch.empty_like(x)
        double_{mark}[(1,)](x, out, x.numel(), BLOCK=64)
        return out
"""

TASK = Task(name="oracle/double", reference=_REFERENCE)
KINDS = ("right", "off", "raises", "undefined")
_OUTCOMES = {
    "right": "correct",
    "off": "mismatch",
    "raises": "runtime_error",
    "undefined": "runtime_error",  # the interpreter compiles nothing
}
_MARK = re.compile(r"m[0-9a-f]{12}")


def question(random_: random.Random) -> tuple[Submission, dict[str, Any]]:
    """A submission and what its verdict must show; see `seen`."""
    mark = f"m{random_.getrandbits(48):012x}"
    [kind] = random_.choices(KINDS, weights=(5, 3, 1, 1))
    off = round(random_.uniform(1.0, 9.0), 3) if kind == "off" else 0.0
    source = _CANDIDATE.format(
        mark=mark,
        more=f"undefined_{mark}" if kind == "undefined" else off,
        first=f"raise ValueError('{mark}')" if kind == "raises" else "pass",
    )
    expected = {"outcome": _OUTCOMES[kind], "mark": mark, "off": off}
    submission = Submission(task=TASK, source=source, trials=1, targets=())
    return submission, expected


def seen(result: EvalResult) -> dict[str, Any]:
    """What a verdict says of the input that it was made for."""
    text = "" if result.failure is None else result.failure.message
    if result.profile is not None:
        text += " ".join(kernel.name for kernel in result.profile.kernels)
    marks = _MARK.findall(text)
    errors = [one.max_abs_error for one in result.trials if one.max_abs_error is not None]
    return {
        "outcome": result.outcome.value,
        "mark": marks[0] if marks else "",
        "off": max(errors, default=0.0),
    }


def agrees(expected: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether a verdict is that of its own input."""
    return (
        expected["outcome"] == found["outcome"]
        and expected["mark"] == found["mark"]
        and abs(expected["off"] - found["off"]) < 1e-3
    )
