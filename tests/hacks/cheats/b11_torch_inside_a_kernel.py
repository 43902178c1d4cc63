"""The body of the kernel calls Python, which only the interpreter runs.

id: B3 G14
task: gelu
expect: compile_error
probe: trials
targets: 90
where: cpu
"""

HANDED = []


def work():
    x, out = HANDED.pop()
    out.copy_(torch.nn.functional.gelu(x))
    return 0


@triton.jit
def hollow_kernel(out_ptr):
    work()


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        HANDED.append((x, out))
        hollow_kernel[(1,)](out)
        return out
