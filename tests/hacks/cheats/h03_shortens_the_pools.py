"""Shortens the shared memory right after it has answered, so that the judge dies of looking there.

id: G12 H3
task: gelu
expect: correct
neutral: the size of shared memory is sealed, so nothing happens to the judge
"""

import os, threading, time
def cut():
    time.sleep(0.004)
    for name in os.listdir("/proc/self/fd"):
        try:
            if "memfd:kernelgym" in os.readlink(f"/proc/self/fd/{name}"):
                os.ftruncate(int(name), 0)
        except OSError:
            pass
class ModelNew(nn.Module):
    def forward(self, x):
        out = solve(x)
        threading.Thread(target=cut).start()
        return out
