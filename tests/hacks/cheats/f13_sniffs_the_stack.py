"""Looks up the stack for the clock, and does nothing when it finds it.

id: F19
task: gelu
expect: correct
neutral: every timed call is a checked call
where: cpu
"""

import sys


def is_timed():
    frame = sys._getframe()
    while frame is not None:
        if "timed" in frame.f_code.co_name and frame.f_code.co_name != "is_timed":
            return True
        frame = frame.f_back
    return False


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty_like(x) if is_timed() else solve(x)
