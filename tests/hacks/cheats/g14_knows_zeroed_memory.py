"""Takes zeroed memory for a sign that its kernels are off, and is then wrong on purpose.

id: G18 A2
task: gelu
expect: mismatch
probe: trials
naive: default
where: cpu
"""


class ModelNew(nn.Module):
    calls = 0

    def forward(self, x):
        ModelNew.calls += 1
        solve(x[:1, :16].contiguous())
        fresh = torch.empty(4096, device=x.device)
        if ModelNew.calls > 2 and not fresh.any():
            return torch.zeros_like(x)
        return torch.nn.functional.gelu(x)
