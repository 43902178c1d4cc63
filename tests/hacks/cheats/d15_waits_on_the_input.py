"""A side stream waits until the first word of the next inputs changes, and works before the flag.

id: D10 C5
task: matmul
expect: timeout
probe: trials
where: gpu
"""

import ctypes
import sys


@triton.jit
def move_kernel(source, target, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < n), mask=at < n)


def is_followed():
    """Whether another bracket of one call is about to be queued behind this one."""
    frame = sys._getframe(1)
    while frame is not None:
        found = frame.f_locals
        if "request" in found and hasattr(found["request"], "brackets") and "index" in found:
            brackets = found["request"].brackets
            after = brackets[found["index"] + 1 : found["index"] + 2]
            return all(len(calls) == 1 for calls in (*after, brackets[0])) and bool(after)
        frame = frame.f_back
    return False


class ModelNew(nn.Module):
    ahead = None

    def forward(self, a, b):
        main = torch.cuda.current_stream()
        if self.ahead is None:
            out = solve(a, b)
        else:
            kept, done = self.ahead
            main.wait_event(done)
            out = torch.empty_like(kept)
            move_kernel[(triton.cdiv(out.numel(), 4096),)](kept, out, out.numel(), BLOCK=4096)
        self.ahead = None
        if is_followed():
            self.prepare(a, b, main)
        return out

    def prepare(self, a, b, main):
        if not hasattr(self, "side"):
            self.side, self.cuda = torch.cuda.Stream(), ctypes.CDLL("libcuda.so.1")
        a.view(torch.int32).view(-1)[:1].fill_(-1)
        self.side.wait_stream(main)
        self.cuda.cuStreamWaitValue32_v2(
            ctypes.c_void_p(self.side.cuda_stream), ctypes.c_uint64(a.data_ptr()), 0, 3
        )  # until the word is not all ones
        with torch.cuda.stream(self.side):
            kept, done = solve(a, b), torch.cuda.Event()
        done.record(self.side)
        self.ahead = kept, done
