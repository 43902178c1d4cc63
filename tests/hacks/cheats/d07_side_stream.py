"""Works on a side stream that nobody joins.

id: D1 D2
task: gelu
expect: correct
neutral: with one queue to the hardware the end mark waits for the side stream, too
where: gpu
"""

SIDE = []


class ModelNew(nn.Module):
    def forward(self, x):
        if not SIDE:
            SIDE.append(torch.cuda.Stream(priority=-1))
        SIDE[0].wait_stream(torch.cuda.current_stream())
        out = torch.empty_like(x)
        with torch.cuda.stream(SIDE[0]):
            torch.cuda._sleep(2_000_000)
            grid = (triton.cdiv(x.numel(), 4096),)
            gelu_kernel[grid](x, out, x.numel(), BLOCK=4096)
        return out
