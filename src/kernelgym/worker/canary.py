"""Is this GPU alive? Run in a throw-away process: a sick driver may hang it for ever.

    python -m kernelgym.worker.canary list          the GPUs, as JSON
    python -m kernelgym.worker.canary check INDEX   one small kernel, checked; exit status 0 or 1

Talks to libcuda directly: no torch, 0.3 s instead of 5. The kernel is PTX that the driver compiles,
so the whole path from compiler to memory is tried.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys

_PTX = (
    rb"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry triple(.param .u64 data)
{
    .reg .b32 %value, %lane, %block, %size;
    .reg .b64 %base, %offset, %place;
    ld.param.u64 %base, [data];
    cvta.to.global.u64 %base, %base;
    mov.u32 %lane, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mad.lo.u32 %lane, %block, %size, %lane;
    mul.wide.u32 %offset, %lane, 4;
    add.u64 %place, %base, %offset;
    ld.global.u32 %value, [%place];
    mul.lo.u32 %value, %value, 3;
    st.global.u32 [%place], %value;
    ret;
}
"""
    + b"\0"
)
_BLOCKS, _THREADS = 1024, 256


class CudaFault(Exception):
    """A call of the driver failed."""


class Cuda:
    """The few calls of libcuda that are needed."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaFault(f"no NVIDIA driver: {error}") from error
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        """Call, and raise on failure."""
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(text))
            raise CudaFault(f"{name}: {(text.value or b'unknown').decode()} ({status})")

    def device(self, index: int) -> ctypes.c_int:
        """Handle of a device."""
        handle = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(handle), index)
        return handle

    def describe(self, index: int) -> dict[str, object]:
        """Name, UUID, memory, compute capability."""
        handle = self.device(index)
        name, uuid = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
        total, major, minor = ctypes.c_size_t(), ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetName", name, 256, handle)
        self.call("cuDeviceGetUuid", uuid, handle)
        self.call("cuDeviceTotalMem_v2", ctypes.byref(total), handle)
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, handle)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, handle)
        text = uuid.raw.hex()
        dashed = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        model = name.value.decode(errors="replace")
        return {
            "index": index,
            "model": model,
            "device_class": device_class(model),
            "uuid": f"GPU-{dashed}",
            "memory_bytes": total.value,
            "capability": major.value * 10 + minor.value,
        }

    def count(self) -> int:
        """Number of devices."""
        number = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(number))
        return number.value


def device_class(model: str) -> str:
    """Class of a GPU model: 'NVIDIA H200' is h200, 'NVIDIA A100-SXM4-80GB' is a100."""
    words = re.findall(r"[A-Za-z0-9]+", model.removeprefix("NVIDIA").removeprefix("Tesla"))
    for word in words:
        if re.fullmatch(r"[A-Za-z]{1,3}\d{1,4}[A-Za-z]?", word):
            return str(word).lower()
    return "-".join(words).lower() or "unknown"


def check(index: int) -> None:
    """Run one kernel in a context of its own and look at every word it wrote."""
    cuda = Cuda()
    context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    memory = ctypes.c_uint64()
    words = _BLOCKS * _THREADS
    cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), cuda.device(index))
    cuda.call("cuCtxSetCurrent", context)
    cuda.call("cuModuleLoadData", ctypes.byref(module), _PTX)
    cuda.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"triple")
    cuda.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(words * 4))
    source = (ctypes.c_uint32 * words)(*range(words))
    result = (ctypes.c_uint32 * words)()
    cuda.call("cuMemcpyHtoD_v2", memory, source, ctypes.c_size_t(words * 4))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    grid_and_block = (_BLOCKS, 1, 1, _THREADS, 1, 1)
    cuda.call("cuLaunchKernel", kernel, *grid_and_block, 0, None, parameters, None)
    cuda.call("cuCtxSynchronize")
    cuda.call("cuMemcpyDtoH_v2", result, memory, ctypes.c_size_t(words * 4))
    cuda.call("cuMemFree_v2", memory)
    wrong = sum(got != 3 * n for n, got in enumerate(result))
    if wrong:
        raise CudaFault(f"{wrong} of {words} words are wrong")


def main(arguments: list[str]) -> int:
    """One of the two commands."""
    try:
        if arguments[:1] == ["check"]:
            check(int(arguments[1]))
        else:
            cuda = Cuda()
            listed = [cuda.describe(index) for index in range(cuda.count())]
            sys.stdout.write(json.dumps(listed))
    except CudaFault as error:
        sys.stderr.write(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
