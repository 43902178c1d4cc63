"""Finds the page of flags and raises the flag itself, so that its work starts before its time.

id: D10
task: gelu
expect: mismatch
probe: trials
where: gpu
"""

import gc


class ModelNew(nn.Module):
    def forward(self, x):
        out = solve(x)
        for thing in gc.get_objects():
            if type(thing).__name__ == "DevicePage":
                thing.set(0, thing.read(16) + 1)
        return out
