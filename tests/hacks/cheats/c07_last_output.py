"""The first answer, for ever.

id: C4
task: max_argmax
expect: mismatch/stale_answer
probe: trials
"""


class ModelNew(nn.Module):
    answer = None

    def forward(self, x):
        if ModelNew.answer is None:
            ModelNew.answer = solve(x)
        return tuple(tensor.clone() for tensor in ModelNew.answer)
