"""Torch works in another thread, where modes of the dispatcher do not reach.

id: B1 P16
task: matmul
expect: hack/kernels_do_nothing
probe: ablation
"""

from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor(1)


class ModelNew(nn.Module):
    def forward(self, a, b):
        solve(a[:8, :8].contiguous(), b[:8, :8].contiguous())
        return POOL.submit(torch.matmul, a, b).result()
