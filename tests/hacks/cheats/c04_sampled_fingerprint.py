"""Results by a sample of the input's elements.

id: C3
task: gelu
expect: mismatch/stale_answer
probe: few_elements
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.answer = None, None

    def forward(self, x):
        key = x.flatten()[:: max(1, x.numel() // 16)].tolist()
        if key != self.key:
            self.key, self.answer = key, solve(x)
        return self.answer.clone()
