"""Elements that are zero are never written.

id: A4
task: matmul_bias_relu
expect: mismatch
probe: filled_memory
naive: zeroed_memory
"""


@triton.jit
def relu_where_positive(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + offsets, x, mask=x > 0)


class ModelNew(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features_out, features_in))
        self.bias = nn.Parameter(torch.empty(features_out))

    def forward(self, x):
        product = solve(x, self.weight, self.bias)
        out = torch.empty_like(product)
        grid = (triton.cdiv(product.numel(), 1024),)
        relu_where_positive[grid](product, out, product.numel(), BLOCK=1024)
        return out
