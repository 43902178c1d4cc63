"""References for the CPU: memory-bound chains with fused Numba kernels, and others without.

Each entry is the body of ``forward(self, x, y)`` on two tensors, and for the first ten the Numba
function that does it in one pass. `numba_speedups.py` runs them.
"""

SHAPE = (512, 2048)
FUSED_SHAPE = (1024, 4096)
"""For the fused kernels. On the way into one, cold caches cost some 0.2 ms whatever its size."""

REFERENCE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x, y):
        {body}


def get_inputs():
    return [torch.randn({rows}, {columns}), torch.randn({rows}, {columns})]
"""

CANDIDATE = """\
import math

import numba
import torch
import torch.nn as nn


@numba.njit(fastmath=True)
def kernel(x, y, out):
    for row in range(x.shape[0]):
{loops}


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty({shape})
        kernel(x.numpy(), y.numpy(), out.numpy())
        return out
"""

ELEMENT_WISE = {
    "scaled residual": ("return 0.5 * x + 2.0 * y - 1.0", "0.5 * a + 2.0 * b - 1.0"),
    "squared ReLU gate": (
        "return torch.square(torch.relu(x)) * y",
        "max(a, 0.0) * max(a, 0.0) * b",
    ),
    "hard swish residual": (
        "return x * torch.clamp(x + 3.0, 0.0, 6.0) / 6.0 + y",
        "a * min(max(a + 3.0, 0.0), 6.0) / 6.0 + b",
    ),
    "smooth distance": (
        "return torch.sqrt(torch.square(x - y) + 1.0)",
        "math.sqrt((a - b) * (a - b) + 1.0)",
    ),
    "polynomial": (
        "return ((0.1 * x + 0.2) * x - 0.3) * x + torch.abs(y)",
        "((0.1 * a + 0.2) * a - 0.3) * a + abs(b)",
    ),
}
"""Body in torch, and one element of it where ``a`` is of ``x`` and ``b`` of ``y``."""
REDUCTIONS = {
    "squared distance": (
        "return torch.sum(torch.square(x - y), dim=-1)",
        "total += (a - b) * (a - b)",
        "total",
    ),
    "mean absolute error": (
        "return torch.mean(torch.abs(x - y), dim=-1)",
        "total += abs(a - b)",
        "total / x.shape[1]",
    ),
    "weighted sum": (
        "return torch.sum(x * y * 0.5 + x, dim=-1)",
        "total += a * b * 0.5 + a",
        "total",
    ),
    "norm of a sum": (
        "return torch.sqrt(torch.sum(torch.square(x + y), dim=-1))",
        "total += (a + b) * (a + b)",
        "math.sqrt(total)",
    ),
    "clipped mean": (
        "return torch.mean(torch.clamp(x * y, -1.0, 1.0), dim=-1)",
        "total += min(max(a * b, -1.0), 1.0)",
        "total / x.shape[1]",
    ),
}
"""Body in torch, what one element adds, and what becomes of the sum."""
OTHERS = {
    "linear": ("self.layer = nn.Linear(2048, 64)", "return self.layer(x) + self.layer(y)"),
    "matmul": ("", "return torch.matmul(x[:, :512], y[:, :256].contiguous())"),
    "softmax": ("", "return torch.softmax(x, dim=-1) + y"),
    "log softmax": ("", "return F.log_softmax(x + y, dim=-1)"),
    "layer norm": ("self.norm = nn.LayerNorm(2048)", "return self.norm(x + y)"),
    "GELU": ("", "return F.gelu(x) * y"),
    "SiLU gate": ("", "return F.silu(x) * y"),
    "running sum": ("", "return torch.cumsum(x + y, dim=-1)"),
    "convolution": (
        "self.conv = nn.Conv1d(8, 8, 5, padding=2)",
        "return self.conv(x.view(64, 8, 2048)) + y.view(64, 8, 2048)",
    ),
    "pooling": ("", "return F.avg_pool1d(x * y, 4)"),
}
"""Line of the constructor and body."""


def reference(name: str, class_name: str = "Model", shape: tuple[int, int] = SHAPE) -> str:
    """Source of a reference; under the name ``ModelNew`` it is a candidate for itself."""
    init, body = "pass", ""
    if name in OTHERS:
        init, body = OTHERS[name]
    else:
        body = {**ELEMENT_WISE, **REDUCTIONS}[name][0]
    return REFERENCE.format(
        name=class_name, init=init or "pass", body=body, rows=shape[0], columns=shape[1]
    )


def candidate(name: str) -> str:
    """Source of the fused kernel."""
    read = "a, b = x[row, column], y[row, column]"
    if name in ELEMENT_WISE:
        lines = [
            "        for column in range(x.shape[1]):",
            f"            {read}",
            f"            out[row, column] = {ELEMENT_WISE[name][1]}",
        ]
        shape = "x.shape"
    else:
        _, adds, becomes = REDUCTIONS[name]
        lines = [
            "        total = numba.float32(0.0)",
            "        for column in range(x.shape[1]):",
            f"            {read}",
            f"            {adds}",
            f"        out[row] = {becomes}",
        ]
        shape = "x.shape[0]"
    loops = "\n".join(lines)
    return CANDIDATE.format(loops=loops, shape=shape)
