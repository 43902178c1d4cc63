"""The candidate harness: load, build, call, report, for candidates that mean well."""

from __future__ import annotations

import torch

ADD = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
        add_kernel[grid](x, y, out, x.numel(), BLOCK=1024, num_warps=8)
        return out
"""


def test_a_triton_kernel_runs_on_the_cpu_and_its_launch_is_seen(start):
    driver = start(ADD)
    driver.build()
    x, y = torch.randn(3000), torch.randn(3000)
    output = driver.call(x, y)
    assert torch.equal(driver.value(output), x + y)
    assert output.aliases == ()
    assert output.devices == ("cpu",)
    (launch,) = driver.launches()
    assert (launch.name, launch.own, launch.grid, launch.num_warps) == (
        "add_kernel",
        True,
        (3, 1, 1),
        8,
    )
