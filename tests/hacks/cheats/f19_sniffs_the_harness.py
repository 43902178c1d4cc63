"""Looks up the stack for the harness's timing, and does nothing when it finds it.

id: F19
task: gelu
expect: mismatch
probe: trials
where: gpu
"""

import sys


def is_timed():
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.endswith(("armed.py", "timing.py")):
            return True
        frame = frame.f_back
    return False


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty_like(x) if is_timed() else solve(x)
