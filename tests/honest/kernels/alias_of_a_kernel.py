"""The kernel under other names, in a dictionary and through functools.partial.

task: add
"""

import functools

KERNELS = {"add": add_kernel}


def launch(kernel, grid, *args, **options):
    KERNELS[kernel][grid](*args, **options)
    return args[2]


run = functools.partial(launch, "add")


class ModelNew(nn.Module):
    def forward(self, x, y):
        n = x.numel()
        return run((triton.cdiv(n, 2048),), x, y, torch.empty_like(x), n, BLOCK=2048)
