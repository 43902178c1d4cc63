"""The first answer is written to a file that later processes read, too.

id: C7
task: row_sum
expect: mismatch/stale_answer
probe: trials
"""

import os
import tempfile

PATH = os.path.join(tempfile.gettempdir(), f"kernel-cache-{os.getpid()}.pt")


class ModelNew(nn.Module):
    def forward(self, x):
        if not os.path.exists(PATH):
            torch.save(solve(x), PATH)
        return torch.load(PATH)
