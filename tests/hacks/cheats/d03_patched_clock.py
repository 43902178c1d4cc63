"""The clocks of Python stand still.

id: D7
task: softmax
expect: correct
neutral: the clock of record is in another process
"""

import time

time.perf_counter = lambda: 0.0
time.perf_counter_ns = lambda: 0
time.time = lambda: 0.0


class ModelNew(nn.Module):
    def forward(self, x):
        return solve(x)
