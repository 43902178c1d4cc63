"""Seeds the generators in every call, so that all later inputs are alike, and answers from store.

id: F12
task: gelu
expect: mismatch/stale_answer
probe: trials
naive: shared_generator
"""


class ModelNew(nn.Module):
    calls = 0
    answer = None

    def forward(self, x):
        ModelNew.calls += 1
        if ModelNew.calls <= 2:
            ModelNew.answer = solve(x)
        torch.manual_seed(7)
        return ModelNew.answer.clone()
