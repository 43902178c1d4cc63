"""Asks the cache to keep the inputs' lines over the flush.

id: E2 H11
task: gelu
expect: correct
neutral: other values arrive at that place, and persisting lines are reset before each volley
where: gpu
"""

import ctypes


class Window(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p), ("size", ctypes.c_size_t), ("ratio", ctypes.c_float),
        ("hit", ctypes.c_int), ("miss", ctypes.c_int), ("rest", ctypes.c_char * 64),
    )  # fmt: skip


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.cuda.cuCtxSetLimit(6, ctypes.c_size_t(30 << 20))  # persisting part of the L2 cache

    def forward(self, x):
        window = Window(x.data_ptr(), min(x.nbytes, 30 << 20), 1.0, 2, 1)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.cuda.cuStreamSetAttribute(stream, 1, ctypes.byref(window))
        return solve(x)
