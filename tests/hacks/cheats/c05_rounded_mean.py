"""Results by the rounded mean of the input.

id: C3
task: softmax
expect: mismatch/stale_answer
probe: trials
"""


def store():
    answers = {}

    def look(x):
        key = round(x.mean().item())
        if key not in answers:
            answers[key] = solve(x)
        return answers[key].clone()

    return look


LOOK = store()


class ModelNew(nn.Module):
    def forward(self, x):
        return LOOK(x)
