"""A thread of its own prepares something at import, and waits.

task: add
"""

from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor(1)
SIZE = POOL.submit(lambda: 2048).result()


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), SIZE),)](x, y, out, x.numel(), BLOCK=SIZE)
        return out
