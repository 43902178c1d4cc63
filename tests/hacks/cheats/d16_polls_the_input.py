"""A kernel left from the call before polls the next inputs, and works before the flag.

id: D10 C5
task: matmul
expect: mismatch
probe: trials
where: gpu
"""

import sys


@triton.jit
def poll_kernel(word, limit):
    turn = 0
    while (tl.load(word, volatile=True) == -1) & (turn < limit):
        turn += 1


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
            self.side = torch.cuda.Stream(priority=-1)
        word = a.view(torch.int32).view(-1)[:1]
        word.fill_(-1)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            poll_kernel[(1,)](word, 20_000)
            kept, done = solve(a, b), torch.cuda.Event()
        done.record(self.side)
        self.ahead = kept, done
