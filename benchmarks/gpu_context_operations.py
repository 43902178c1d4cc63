"""What an honest candidate may do on a GPU, and second contexts, for ``gpu_second_context.py``.

Each operation is done in a process whose primary context, torch and first kernels are there.
"""

import ctypes
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

TRITON_SOURCE = """
import triton
import triton.language as tl

@triton.jit
def kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
"""


class Operations:
    """All of them; what they make is kept, so that it can be seen from outside."""

    def __init__(self, child: Any) -> None:
        self.mode, self.kept, self.cupti = child.mode, child.kept, child.cupti
        self.torch, self.driver, self.kernels = child.torch, child.driver, child.kernels
        self.pool, self.x, self.contexts = child.pool, child.x, child.contexts

    def all(self) -> dict[str, Callable[[], object]]:
        """Name to what an honest candidate may do, and the second contexts last."""
        torch, call = self.torch, self.driver.call

        def hold(make: Callable[[], object]) -> Callable[[], object]:
            return lambda: (self.kept.append(make()), torch.cuda.synchronize())

        def graph() -> None:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                self.x.add_(1)
                made = torch.cuda.CUDAGraph()
                with torch.cuda.graph(made, stream=stream):
                    for _ in range(50):
                        self.x.add_(1)
            made.replay()
            torch.cuda.synchronize()
            self.kept.append(made)

        a = torch.ones(512, 512, device="cuda")
        image = torch.ones(8, 16, 64, 64, device="cuda")
        weight = torch.ones(16, 16, 3, 3, device="cuda")
        found = {
            "second harness module": hold(lambda: type(self.kernels)(self.driver)),
            "triton kernel": self.triton,
            "torch kernels": hold(lambda: [self.x.exp(), self.x.sort(), self.x.cumsum(0)]),
            "alloc 64 MiB": hold(lambda: torch.empty(64 << 20, dtype=torch.uint8, device="cuda")),
            "alloc 16 GiB": hold(lambda: torch.empty(16 << 30, dtype=torch.uint8, device="cuda")),
            "1000 small allocs": hold(lambda: [call("cuMemAlloc", 4 << 20) for _ in range(1000)]),
            "alloc async": hold(lambda: call("cuMemAllocAsync", 64 << 20, self.driver.stream())),
            "managed": hold(lambda: call("cuMemAllocManaged", 64 << 20, 1)),
            "pool of memory": hold(lambda: type(self.pool)(self.driver, 64 << 20)),
            "pinned 1 MiB": hold(lambda: torch.empty(1 << 20, pin_memory=True)),
            "pinned 256 MiB": hold(lambda: torch.empty(64 << 20, pin_memory=True)),
            "pageable copies": hold(lambda: self.x.cpu().cuda()),
            "large pageable copy": hold(lambda: torch.ones(64 << 20).cuda().cpu()),
            "one stream": hold(torch.cuda.Stream),
            "64 streams": hold(lambda: [self.used(torch.cuda.Stream()) for _ in range(64)]),
            "priority stream": hold(lambda: self.used(torch.cuda.Stream(priority=-5))),
            "raw streams": hold(lambda: [call("cuStreamCreate", 1) for _ in range(64)]),
            "events": hold(lambda: [torch.cuda.Event(enable_timing=True) for _ in range(64)]),
            "graph": graph,
            "matmul": hold(lambda: [a @ a, a.half() @ a.half(), torch.addmm(a[0], a, a)]),
            "convolution": hold(lambda: torch.nn.functional.conv2d(image, weight, padding=1)),
            "fft": hold(lambda: torch.fft.rfft(a)),
            "solver": hold(lambda: torch.linalg.qr(a)),
            "attention": hold(
                lambda: torch.nn.functional.scaled_dot_product_attention(
                    *[torch.ones(2, 4, 128, 64, device="cuda", dtype=torch.half)] * 3
                )
            ),
            "larger stack": lambda: call("cuCtxSetLimit", 0, 32 << 10),
            "kernel after it": self.triton,
            "profiler": lambda: {"records": self.profile()},
            "spin 2000 blocks": lambda: (
                self.kernels.spin(self.driver.stream(), 1_000_000, 2000),
                torch.cuda.synchronize(),
            ),
            "thread that uses CUDA": self.in_thread,
            "green context": lambda: {"kept": str(self.green())},
            "second context": self.second_context,
            "third context": self.second_context,
            "primary context anew": self.reset,
        }
        if self.mode == "count":
            found.pop("profiler")  # the callbacks above have the only place
        return found

    def used(self, stream: object) -> object:
        with self.torch.cuda.stream(stream):
            self.x.add_(1)
        return stream

    def profile(self) -> int:
        from kernelgym.trace.cupti import Cupti

        if not self.cupti:
            self.cupti.append(Cupti())
        cupti = self.cupti[0]
        cupti.start()
        self.x.add_(1)
        self.torch.cuda.synchronize()
        records = len(cupti.take())
        cupti.stop()
        return records

    def in_thread(self) -> None:
        thread = threading.Thread(target=lambda: self.x.add_(1))
        thread.start()
        thread.join()
        self.torch.cuda.synchronize()

    def triton(self) -> None:
        directory = tempfile.mkdtemp()
        Path(directory, "one_kernel.py").write_text(TRITON_SOURCE)
        sys.path.insert(0, directory)
        import one_kernel

        block = 1024 << len(self.kept) % 3
        one_kernel.kernel[(self.x.numel() // block,)](self.x, self.x.numel(), block)
        self.torch.cuda.synchronize()

    def green(self) -> object:
        """A stream of a green context with 16 multiprocessors."""
        call, api = self.driver.call, self.driver.api
        device = call("cuDeviceGet", 0)
        resource = call(
            "cuDeviceGetDevResource", device, api.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
        )
        groups = call("cuDevSmResourceSplitByCount", 1, resource, 0, 16)[0]
        described = call("cuDevResourceGenerateDesc", groups, 1)
        made = call("cuGreenCtxCreate", described, device, 1)
        stream = call("cuGreenCtxStreamCreate", made, 1, 0)
        self.kept += [made, groups, described, stream]
        return stream

    def second_context(self) -> dict:
        """By the driver's own function; works in it, and comes back."""
        library = ctypes.CDLL("libcuda.so.1")
        old, made, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        library.cuCtxGetCurrent(ctypes.byref(old))
        status = [library.cuCtxCreate_v2(ctypes.byref(made), 0, 0)]
        if status[0] == 0:
            status += [
                library.cuMemAlloc_v2(ctypes.byref(memory), 1 << 20),
                library.cuMemsetD8_v2(memory, 1, 1 << 20),
                library.cuCtxSynchronize(),
            ]
        library.cuCtxSetCurrent(old)
        still = float(self.x.sum())
        return {"status": status, "first context works": still == still, **self.told()}

    def told(self) -> dict:
        return (
            {"callbacks": {str(k): v for k, v in self.contexts.items()}}
            if self.mode == "count"
            else {}
        )

    def reset(self) -> dict:
        """Give the primary context up and make it again."""
        library, made = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        return {
            "status": [
                library.cuDevicePrimaryCtxReset_v2(0),
                library.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0),
                library.cuCtxSetCurrent(made),
            ],
            **self.told(),
        }
