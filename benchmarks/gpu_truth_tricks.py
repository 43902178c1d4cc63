"""Tricks against the clock, and candidates that spin while they are prepared.

Each is code put behind the honest softmax of ``candidates/small_softmax.py``, whose class is called
``Honest`` then: so the honest twin is at hand, and whatever is reported beyond 5% of the twin's
time is what the trick has won. ``SPINNERS`` run while the module is imported.

Not covered: tricks that answer wrongly or do not compute (the hack tests have those).
"""

PATCHED_EVENTS = """
_elapsed = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, other: _elapsed(self, other) / 10
class ModelNew(Honest):
    pass
"""
PATCHED_DRIVER = """
try:
    from cuda.bindings import driver as _driver
    _real = _driver.cuEventElapsedTime
    def _shorter(*events):
        status, milliseconds = _real(*events)
        return status, milliseconds / 10
    _driver.cuEventElapsedTime = _shorter
    if hasattr(_driver, "cuEventElapsedTime_v2"):
        _driver.cuEventElapsedTime_v2 = _shorter
except ImportError:
    pass
class ModelNew(Honest):
    pass
"""
PATCHED_CLOCKS = """
import time
def _slow(name):
    real = getattr(time, name)
    whole = name.endswith("_ns")
    setattr(time, name, lambda: real() // 10 if whole else real() / 10)
for _name in ("perf_counter", "monotonic", "time", "perf_counter_ns", "monotonic_ns", "time_ns"):
    _slow(_name)
class ModelNew(Honest):
    pass
"""
PATCHED_SYNCHRONIZE = """
torch.cuda.synchronize = lambda *a, **k: None
torch.cuda.Event.synchronize = lambda self: None
torch.cuda.Stream.synchronize = lambda self: None
class ModelNew(Honest):
    pass
"""
SIDE_STREAM = """
class ModelNew(Honest):
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            return super().forward(x)
"""
JOINED_STREAM = """
class ModelNew(Honest):
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            out = super().forward(x)
        torch.cuda.current_stream().wait_stream(self.side)
        return out
"""
THREAD = """
import threading
class ModelNew(Honest):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        def late():
            block = triton.next_power_of_2(x.shape[1])
            softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=block)
        threading.Thread(target=late).start()
        return out
"""
LAZY = """
class Later(torch.Tensor):
    @staticmethod
    def __new__(cls, value, work):
        made = torch.Tensor._make_wrapper_subclass(
            cls, value.shape, dtype=value.dtype, device=value.device
        )
        made.value, made.work = value, work
        return made
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        done = [a.work(a.value) if isinstance(a, Later) else a for a in args]
        return func(*done, **(kwargs or {}))
class ModelNew(Honest):
    def forward(self, x):
        return Later(x, super().forward)
"""
SLEEPING_WARM_UP = """
import time
class ModelNew(Honest):
    calls = 0
    def forward(self, x):
        ModelNew.calls += 1
        if ModelNew.calls <= 40:
            time.sleep(0.005)
        return super().forward(x)
"""
SPINNING_WARM_UP = """
class ModelNew(Honest):
    calls = 0
    def forward(self, x):
        ModelNew.calls += 1
        if ModelNew.calls <= 40:
            torch.cuda._sleep(4_000_000)
        return super().forward(x)
"""
TRICKS = {
    "patched_clocks": PATCHED_CLOCKS,
    "sleeping_warm_up": SLEEPING_WARM_UP,
    "patched_events": PATCHED_EVENTS,
    "patched_driver": PATCHED_DRIVER,
    "patched_synchronize": PATCHED_SYNCHRONIZE,
    "side_stream": SIDE_STREAM,
    "joined_stream": JOINED_STREAM,
    "thread": THREAD,
    "lazy_result": LAZY,
    "spinning_warm_up": SPINNING_WARM_UP,
}
"""The first two need no GPU to run."""

GPU_SPINNER = """
for _ in range(8):
    torch.cuda._sleep(1_500_000_000)
torch.cuda.synchronize()
class ModelNew(Honest):
    pass
"""
CPU_SPINNER = """
import os, time
_children = []
for _ in range(os.cpu_count() or 1):
    _pid = os.fork()
    if _pid == 0:
        _end = time.monotonic() + SECONDS
        while time.monotonic() < _end:
            pass
        os._exit(0)
    _children.append(_pid)
for _pid in _children:
    os.waitpid(_pid, 0)
class ModelNew(Honest):
    pass
"""
SPINNERS = {
    "gpu_spinner": GPU_SPINNER,
    "cpu_spinner": CPU_SPINNER.replace("SECONDS", "8"),
}


def behind(honest: str, trick: str) -> str:
    """The honest source, its class renamed, and the trick behind it."""
    return honest.replace("class ModelNew(", "class Honest(") + trick
