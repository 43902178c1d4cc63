"""The CUDA driver, as far as an evaluation needs it beside torch.

    driver   calls of cuda-bindings, checked; imported only when a GPU is really used
    device   primary context, facts of the device
    vmm      pools that two processes map: cuMemCreate, handed over as a file descriptor
    page     a page of host memory that CPU and GPU of two processes see: flags and marks
    kernels  three kernels of our own (tick, spin, copy) from PTX
    flush    a cold L2 cache
    armed    a call that is queued whole before it may start
    snapshot copies by DMA at the moment of an answer

Nothing here has logic that needs a GPU to be tested: each takes a `driver.Driver`, and the tests
give it a stand-in. Not covered: several GPUs in one process, MIG, Windows.
"""
