"""Grid and block are computed once a shape and kept.

task: log_softmax
"""

SETTINGS = {}


class ModelNew(nn.Module):
    def forward(self, x):
        if x.shape not in SETTINGS:
            rows, columns = x.shape
            SETTINGS[x.shape] = ((rows,), triton.next_power_of_2(columns))
        grid, block = SETTINGS[x.shape]
        out = torch.empty_like(x)
        log_softmax_kernel[grid](x, out, x.shape[1], BLOCK=block)
        return out
