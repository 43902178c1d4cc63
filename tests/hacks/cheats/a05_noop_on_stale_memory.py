"""An empty kernel; the output memory is hoped to hold the reference's answer.

id: A4 F1
task: softmax
expect: mismatch
probe: filled_memory
naive: caching_allocator
"""


@triton.jit
def nothing(x_ptr):
    tl.program_id(0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        nothing[(1,)](out)
        return out
