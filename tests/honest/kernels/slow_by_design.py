"""Row by row, with a Python loop of launches.

task: row_sum
where: cpu
"""


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        block = triton.next_power_of_2(x.shape[1])
        for row in range(x.shape[0]):
            row_sum_kernel[(1,)](x[row], out[row:], x.shape[1], BLOCK=block)
        return out
