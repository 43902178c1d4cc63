"""A context of its own keeps the GPU busy beside the judge's blocks.

id: D13 E6
task: add
expect: correct
neutral: the device nodes are sealed by then, and no second context can be made
where: gpu
"""

import ctypes


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.cuda_library = ctypes.CDLL("libcuda.so.1")
        self.other, self.old = ctypes.c_void_p(), ctypes.c_void_p()
        self.buffer = ctypes.c_uint64()
        self.cuda_library.cuCtxGetCurrent(ctypes.byref(self.old))
        self.cuda_library.cuCtxCreate_v2(ctypes.byref(self.other), 0, 0)
        self.cuda_library.cuMemAlloc_v2(ctypes.byref(self.buffer), 1 << 26)
        self.cuda_library.cuCtxSetCurrent(self.old)

    def forward(self, x, y):
        self.cuda_library.cuCtxSetCurrent(self.other)
        self.cuda_library.cuMemsetD8Async(self.buffer, 1, 1 << 26, None)
        self.cuda_library.cuCtxSetCurrent(self.old)
        return solve(x, y)
