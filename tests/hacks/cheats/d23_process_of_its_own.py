"""Another process, with a context of its own, keeps the GPU busy beside the judge's blocks.

id: D13 E6
task: add
expect: correct
neutral: the device nodes are sealed by then, and another process opens none
where: gpu
"""

import subprocess
import sys

PROGRAM = """
import ctypes
cuda, context, buffer = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
if not (cuda.cuInit(0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)):
    cuda.cuMemAlloc_v2(ctypes.byref(buffer), 1 << 28)
    while not cuda.cuMemsetD8_v2(buffer, 1, 1 << 28):
        pass
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.other = subprocess.Popen([sys.executable, "-c", PROGRAM])

    def forward(self, x, y):
        return solve(x, y)
