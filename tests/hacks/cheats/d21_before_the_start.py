"""Waits until the judge has raised the flag of a late call, and works before the start mark.

id: D8 D10
task: gelu
expect: correct
neutral: from the flag to complete outputs is a bound, whatever ran before the start mark
where: gpu
"""

import sys
import time

READY = []


def dawdle(armed):
    queue = armed.queue

    def late(bench, value, calls, call, copy_out, **options):
        tick = bench.kernels.tick

        def work_first(stream):
            tick(stream)
            time.sleep(0.04)  # the judge waits half as long
            READY[:] = [call(index) for index in range(calls)]

        bench.kernels.tick = work_first
        try:
            return queue(bench, value, calls, lambda index: READY[index], copy_out, **options)
        finally:
            bench.kernels.tick = tick

    armed.queue = late


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        if "kernelgym.cuda.armed" in sys.modules:
            dawdle(sys.modules["kernelgym.cuda.armed"])

    def forward(self, x):
        return solve(x)
