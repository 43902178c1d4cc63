"""Results by a hash of everything; the very tensor that was returned before is returned again.

id: C3
task: add
expect: mismatch
probe: same_elsewhere
"""

import hashlib


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x, y):
        data = x.cpu().numpy().tobytes() + y.cpu().numpy().tobytes()
        key = hashlib.sha256(data).digest()
        if key not in self.known:
            self.known = {key: solve(x, y)}
        return self.known[key]
