"""Candidates for the outcome matrix: one small source for each way in which one can end."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent

from kernelgym.schema import Outcome, Submission, Task

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.rand(512), torch.rand(512)]
"""

KERNEL = """
import ctypes, os, signal, sys, threading, time
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside)
    tl.store(out + offsets, total, mask=inside)


def add(x, y):
    out = torch.empty_like(x)
    add_kernel[(1,)](x, y, out, x.numel(), BLOCK=512)
    return out

"""

MODEL = """
class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return add(x, y)
"""

HONEST = KERNEL + MODEL


def task(reference: str = REFERENCE, name: str = "test/add") -> Task:
    return Task(name=name, reference=dedent(reference))


def forward(body: str, before: str = "") -> str:
    """A candidate whose ``forward`` has this body; ``add`` is at hand."""
    indented = "\n".join(f"        {line}" for line in dedent(body).strip().splitlines())
    model = f"class ModelNew(torch.nn.Module):\n    def forward(self, x, y):\n{indented}\n"
    return KERNEL + dedent(before) + "\n\n" + model


def module(body: str) -> str:
    """A candidate that runs ``body`` on import and is honest otherwise."""
    return HONEST + "\n" + dedent(body)


def kernel(old: str, new: str) -> str:
    """The honest candidate with another kernel."""
    assert old in KERNEL
    return KERNEL.replace(old, new) + MODEL


@dataclass(frozen=True)
class Case:
    """One candidate and what must come out."""

    name: str
    source: str
    outcome: Outcome
    code: str | None = None
    stage: str | None = None
    line_of: str | None = None
    """Text of the source line that the failure must point to."""
    finding: str | None = None
    timeout_s: float = 20.0
    memory_mb: int = 2048
    levels: tuple[str, ...] = ("L1", "L0", "none")
    """Where it is bounded, or bounds itself."""
    where_polled: tuple[Outcome, str] | None = None
    """What may come out where memory is polled: pages that forks share count for each of them."""
    options: dict[str, object] = field(default_factory=dict)

    def submission(self) -> Submission:
        return Submission(
            task=task(),
            source=self.source,
            timeout_s=self.timeout_s,
            memory_mb=self.memory_mb,
            trials=2,
            **self.options,
        )

    @property
    def line(self) -> int | None:
        if self.line_of is None:
            return None
        lines = self.source.split("\n")
        return next(i for i, text in enumerate(lines, 1) if self.line_of in text)


HONEST_CASE = Case("honest", HONEST, Outcome.CORRECT)

NOT_A_MODULE = [
    Case("syntax_error", KERNEL + "def broken(:\n    pass\n", Outcome.COMPILE_ERROR,
         "syntax_error", "load", "def broken("),
    Case("missing_entry_point", KERNEL + "class Other: pass\n", Outcome.COMPILE_ERROR,
         "missing_entry_point", "build"),
    Case("import_error", "import no_such_module\n" + HONEST, Outcome.COMPILE_ERROR,
         "import_error", "load", "import no_such_module"),
    Case("load_error", module("1 / 0"), Outcome.COMPILE_ERROR, "load_error", "load", "1 / 0"),
    Case("constructor_error", KERNEL + dedent("""
        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                raise ValueError("no")
        """), Outcome.RUNTIME_ERROR, "constructor_error", "build", 'raise ValueError("no")'),
    Case("kernel_compile_error", kernel("offsets < n\n", 'offsets < {"n": n}["n"]\n'),
         Outcome.COMPILE_ERROR, "kernel_compile_error", "compile", '{"n": n}["n"]'),
    Case("kernel_error_everywhere", kernel("tl.load(x +", "tl.no_such_thing(x +"),
         Outcome.COMPILE_ERROR, "kernel_compile_error", "compile", "tl.no_such_thing"),
]  # fmt: skip

WRONG = [
    Case("wrong_values", forward("return add(x, x)"), Outcome.MISMATCH, "value_mismatch"),
    Case("wrong_shape", forward("return add(x, y)[:100]"), Outcome.MISMATCH, "shape_mismatch"),
    Case("broadcastable_shape", forward("return add(x, y)[None]"), Outcome.MISMATCH,
         "shape_mismatch"),
    Case("wrong_dtype", forward("return add(x, y).double()"), Outcome.MISMATCH, "dtype_mismatch"),
    Case("nan", forward("out = add(x, y)\nout[7] = float('nan')\nreturn out"), Outcome.MISMATCH,
         "nan_mismatch"),
    Case("tuple", forward("return (add(x, y),)"), Outcome.MISMATCH, "structure_mismatch"),
    Case("nothing", forward("add(x, y)"), Outcome.MISMATCH, "structure_mismatch"),
    Case("subclass", forward("return torch.nn.Parameter(add(x, y))"), Outcome.MISMATCH,
         "type_mismatch"),
    Case("input_modified", forward("out = add(x, y)\nx.add_(1)\nreturn out"), Outcome.MISMATCH,
         "input_modified"),
    Case("aliased", forward("out = add(x, y)\nreturn x.copy_(out)"), Outcome.MISMATCH,
         "aliased_output"),
    Case("buffer_used_twice", forward(
        "return BUFFER.copy_(add(x, y))", "BUFFER = torch.empty(512)"), Outcome.MISMATCH,
        "aliased_output"),
    Case("right_in_eval_only", forward("return add(x, y) if not self.training else add(x, x)"),
         Outcome.MISMATCH, "value_mismatch"),
]  # fmt: skip

ENDINGS = [
    Case("exception", forward("add(x, y)\nraise KeyError('k')"), Outcome.RUNTIME_ERROR,
         "forward_error", "forward", "raise KeyError"),
    Case("sys_exit", forward("sys.exit(0)"), Outcome.CRASH, "early_exit", "forward"),
    Case("sys_exit_on_import", module("sys.exit(0)"), Outcome.CRASH, "early_exit", "load"),
    Case("os_exit", forward("os._exit(0)"), Outcome.CRASH, "early_exit", "forward"),
    Case("segfault", forward("ctypes.string_at(8)"), Outcome.CRASH, "signal", "forward"),
    Case("kills_itself", forward("os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)"),
         Outcome.CRASH, "signal", "forward"),
    Case("infinite_loop", forward("while True: pass"), Outcome.TIMEOUT, "deadline", "forward",
         timeout_s=2.0),
    Case("sleeps_on_import", module("time.sleep(60)"), Outcome.TIMEOUT, "deadline", "load",
         timeout_s=1.5),
    Case("ignores_signals", forward("""
        for number in range(1, 32):
            if number not in (9, 19):
                signal.signal(number, signal.SIG_IGN)
        while True: pass
        """), Outcome.TIMEOUT, "deadline", "forward", timeout_s=2.0),
    Case("huge_exception", forward("raise RuntimeError('x' * 50_000_000)"), Outcome.RUNTIME_ERROR,
         "forward_error", "forward"),
    Case("exception_that_lies", forward(
        "raise Liar()", """
        class Liar(Exception):
            def __str__(self):
                raise SystemExit(0)
        """), Outcome.RUNTIME_ERROR, "forward_error", "forward"),
    Case("deep_recursion", forward("def f(n): return f(n + 1)\nf(0)"), Outcome.RUNTIME_ERROR,
         "forward_error", "forward"),
    Case("memory_bomb", forward("""
        hoard = []
        while True:
            hoard.append(bytearray(os.urandom(1 << 16) * 512))
        """), Outcome.OUT_OF_MEMORY, "memory_limit", "forward", memory_mb=512,
         levels=("L1", "L0")),
    Case("impossible_allocation", forward("return torch.empty(1 << 50)"), Outcome.OUT_OF_MEMORY,
         "exception_out_of_memory", "forward"),
    Case("fork_bomb", forward("""
        for _ in range(2000):
            if os.fork() == 0:
                time.sleep(600)
        """), Outcome.RUNTIME_ERROR, "forward_error", "forward", levels=("L1", "L0"),
         timeout_s=90.0, where_polled=(Outcome.OUT_OF_MEMORY, "memory_limit")),
    Case("garbage_in_the_channel", forward("""
        for fd in range(3, 30):
            try:
                os.write(fd, b"hello, this is no frame at all" * 4)
            except OSError:
                pass
        time.sleep(60)
        """), Outcome.CRASH, "channel_violation", "forward"),
    Case("forged_answer", forward("""
        import socket
        from kernelgym.sandbox.frames import Channel, Kind
        for fd in range(3, 30):
            try:
                Channel(socket.socket(fileno=os.dup(fd))).send(Kind.DONE, 999, b"{}")
            except Exception:
                pass
        return add(x, y)
        """), Outcome.HACK, "forged_frame", "forward", finding="forged_frame"),
]  # fmt: skip

HARMLESS = [
    Case("stdout_flood", forward("""
        for _ in range(1000):
            os.write(1, b"x" * (1 << 20))
        return add(x, y)
        """), Outcome.CORRECT),
    Case("leftover_thread", forward("""
        threading.Thread(target=time.sleep, args=(600,)).start()
        return add(x, y)
        """), Outcome.CORRECT),
    Case("daemonised_children", forward("""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(15, b"kg-orphan", 0, 0, 0)
                for number in range(1, 32):
                    if number not in (9, 19):
                        signal.signal(number, signal.SIG_IGN)
                time.sleep(600)
            os._exit(0)
        return add(x, y)
        """), Outcome.CORRECT),
    Case("keeps_descriptors_open", forward("""
        if os.fork() == 0:
            time.sleep(600)
        return add(x, y)
        """), Outcome.CORRECT),
]  # fmt: skip

LAUNCHES = [
    Case("decoy", forward("return x + y"), Outcome.HACK, "no_own_kernel", line_of="def add_kernel",
         finding="no_own_kernel"),
    Case("passthrough", "import torch\n\n\nclass ModelNew(torch.nn.Module):\n"
         "    def forward(self, x, y):\n        return torch.add(x, y)\n", Outcome.HACK,
         "no_own_kernel", line_of="torch.add", finding="no_own_kernel"),
    Case("mode_branch", forward("return torch.add(x, y) if self.training else add(x, y)"),
         Outcome.CORRECT, finding="mode_branch"),
    Case("hidden_fallback", forward("""
        try:
            if x.numel() > 0:
                raise RuntimeError
            return add(x, y)
        except RuntimeError:
            return torch.add(x, y)
        """), Outcome.HACK, "no_own_kernel", line_of="torch.add", finding="no_own_kernel"),
    Case("torch_backend_needs_no_kernel", "import torch\n\n\nclass ModelNew(torch.nn.Module):\n"
         "    def forward(self, x, y):\n        return x + y\n", Outcome.CORRECT,
         options={"backend": "torch"}),
]  # fmt: skip

DISTURBING = frozenset(case.name for case in ENDINGS + HARMLESS)
"""Those that do something to processes, theirs or others'."""
CASES = [HONEST_CASE, *NOT_A_MODULE, *WRONG, *ENDINGS, *HARMLESS, *LAUNCHES]
