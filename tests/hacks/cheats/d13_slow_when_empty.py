"""Brackets without a call, which say what an empty bracket takes, take half a millisecond.

id: D10 D9
task: gelu
expect: correct
neutral: an empty bracket is not taken for longer than the reference's own
where: gpu
"""

import sys


def slow_down(armed):
    queue = armed.queue

    def queue_slowly(bench, value, calls, call, copy_out, **options):
        if calls:
            return queue(bench, value, calls, call, copy_out, **options)
        stream = bench.driver.stream()
        return queue(
            bench, value, 1, lambda _: bench.kernels.spin(stream, 500_000),
            lambda _: copy_out([]), **options,
        )  # fmt: skip

    armed.queue = queue_slowly


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        if "kernelgym.cuda.armed" in sys.modules:
            slow_down(sys.modules["kernelgym.cuda.armed"])

    def forward(self, x):
        return solve(x)
