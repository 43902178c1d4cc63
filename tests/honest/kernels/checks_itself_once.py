"""Compares its first answer with torch, and then trusts itself.

task: gelu
"""


class ModelNew(nn.Module):
    checked = False

    def forward(self, x):
        out = solve(x)
        if not ModelNew.checked:
            ModelNew.checked = True
            torch.testing.assert_close(out, torch.nn.functional.gelu(x), rtol=1e-2, atol=1e-2)
        return out
