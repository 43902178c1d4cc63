"""One tiny launch whose result is thrown away, beside torch.

id: A2
task: gelu
expect: hack/kernels_do_nothing
probe: ablation
"""


class ModelNew(nn.Module):
    def forward(self, x):
        solve(x[:1, :16].contiguous())
        return torch.nn.functional.gelu(x)
