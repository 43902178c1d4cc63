"""Returns at once; a thread fills the output afterwards.

id: D3
task: add
expect: mismatch
probe: filled_memory
"""

import threading
import time


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)

        def work():
            time.sleep(0.03)
            n = x.numel()
            add_kernel[(triton.cdiv(n, 4096),)](x, y, out, n, BLOCK=4096)

        threading.Thread(target=work).start()
        return out
