"""The harness is made to say that the events of timed calls were NaN apart, larger than nothing.

id: D6 G16
task: softmax
expect: crash/channel_violation
probe: trials
where: gpu
"""

import json
import sys


def say_nan(timing):
    measured = timing.Timing.run

    class Untimed:
        def __init__(self, timed):
            self.claims = json.loads(timed.model_dump_json())

        def model_dump_json(self):
            return json.dumps(self.claims | {"events_us": ["nan"] * len(self.claims["events_us"])})

    timing.Timing.run = lambda *given: Untimed(measured(*given))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        if "kernelgym.sandbox.timing" in sys.modules:
            say_nan(sys.modules["kernelgym.sandbox.timing"])

    def forward(self, x):
        return solve(x)
