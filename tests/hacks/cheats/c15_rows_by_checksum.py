"""Recomputes only the rows whose first elements have changed.

id: C3 C10
task: softmax
expect: mismatch
probe: few_elements
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.answer = None, None

    def forward(self, x):
        key = x[:, :2].clone()
        if self.key is None:
            self.answer = solve(x)
        else:
            changed = (key != self.key).any(dim=1)
            if bool(changed.any()):
                self.answer[changed] = solve(x[changed].contiguous())
        self.key = key
        return self.answer.clone()
