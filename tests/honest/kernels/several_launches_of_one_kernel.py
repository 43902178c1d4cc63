"""One kernel for each part of the input.

task: gelu
"""


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        flat, target = x.view(-1), out.view(-1)
        half = flat.numel() // 2
        for low, high in ((0, half), (half, flat.numel())):
            part = flat[low:high]
            grid = (triton.cdiv(part.numel(), 4096),)
            gelu_kernel[grid](part, target[low:high], part.numel(), BLOCK=4096)
        return out
