"""Static advice on candidates: what is found, on which line, and what may not be claimed."""

import subprocess
import sys

import pytest

from kernelgym.submission.static import MAX_ANALYSED_BYTES, analyse

HEADER = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
"""


def report(body, entry_point="ModelNew"):
    return analyse(HEADER + body, entry_point)


ONE_KERNEL = """
@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    pass

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(1,)](x, y, out, x.numel(), BLOCK=64)
        return out
"""


def test_honest_kernel_is_launched_and_no_torch_call_is_listed():
    found = report(ONE_KERNEL)
    assert [(k.name, k.line, k.decorators) for k in found.kernels] == [
        ("add_kernel", 8, ("triton.jit",))
    ]
    [launch] = found.launches
    assert (launch.kernel, launch.line, launch.reachable) == ("add_kernel", 14, True)
    assert launch.function == "ModelNew.forward"
    assert launch.excerpt == "add_kernel[(1,)](x, y, out, x.numel(), BLOCK=64)"
    assert found.never_launched == ()
    assert found.torch_calls == ()
    assert found.entry_point_line == 11


DECOY = """
@triton.jit
def decoy(x):
    pass

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


def test_kernel_without_a_launch_is_named_with_its_line():
    found = report(DECOY)
    [kernel] = found.never_launched
    assert (kernel.name, kernel.line, kernel.excerpt) == ("decoy", 8, "def decoy(x):")
    assert [(call.name, call.line) for call in found.torch_calls] == [("torch.relu", 13)]


def test_launch_in_a_function_that_nothing_live_mentions_does_not_count():
    body = DECOY + "\ndef show(x):\n    decoy[(1,)](x)\n"
    found = report(body)
    assert [(launch.kernel, launch.reachable) for launch in found.launches] == [("decoy", False)]
    assert [kernel.name for kernel in found.never_launched] == ["decoy"]


def test_launch_through_a_function_method_or_autograd_class_is_reachable():
    body = """
@triton.jit
def k(x):
    pass

class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return run(x)

def run(x):
    k[(1,)](x)
    return x

class ModelNew(nn.Module):
    def step(self, x):
        return Op.apply(x)

    def forward(self, x):
        return self.step(x)
"""
    found = report(body)
    assert [launch.reachable for launch in found.launches] == [True]
    assert found.never_launched == ()


@pytest.mark.parametrize(
    "launch",
    [
        "self.kernel = k\n        self.kernel[(1,)](x)",
        "tuned = triton.autotune(configs=[], key=[])(k)\n        tuned[(1,)](x)",
        "start = k[(1,)]\n        start(x)",
        "k.run(x, grid=(1,), warmup=False)",
        "launch_somewhere(k, x)",
        "torch.library.wrap_triton(k)[(1,)](x)",
    ],
)
def test_indirect_launches_are_not_called_missing(launch):
    body = f"""
@triton.jit
def k(x):
    pass

class ModelNew(nn.Module):
    def forward(self, x):
        {launch}
        return x
"""
    assert report(body).never_launched == ()


def test_alias_that_is_never_launched_does_not_save_the_kernel():
    body = """
@triton.jit
def k(x):
    pass

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = k

    def forward(self, x):
        return x + x
"""
    assert [kernel.name for kernel in report(body).never_launched] == ["k"]


def test_device_function_is_live_through_the_kernel_that_calls_it():
    body = """
@triton.jit
def inner(x):
    return x

@triton.jit
def middle(x):
    return inner(x)

@triton.autotune(configs=[triton.Config({})], key=["n"])
@triton.heuristics({"EVEN": lambda args: True})
@triton.jit
def outer(x, n):
    middle(x)

class ModelNew(nn.Module):
    def forward(self, x):
        outer[(1,)](x, 1)
        return x
"""
    found = report(body)
    by_name = {kernel.name: kernel for kernel in found.kernels}
    assert by_name["inner"].called_by == ("middle",)
    assert by_name["outer"].decorators == ("triton.autotune", "triton.heuristics", "triton.jit")
    assert found.never_launched == ()


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("from triton import jit", "jit"),
        ("import triton as tr", "tr.jit"),
        ("import triton", "triton.jit(do_not_specialize=['n'])"),
    ],
)
def test_kernels_are_recognised_under_any_import(imports, decorator):
    found = analyse(f"{imports}\n@{decorator}\ndef k(n):\n    pass\n")
    assert [kernel.name for kernel in found.kernels] == ["k"]


def test_kernel_made_by_calling_jit():
    found = analyse("import triton\ndef body(x):\n    pass\nk = triton.jit(body)\n")
    assert [(kernel.name, kernel.line) for kernel in found.kernels] == [("k", 2)]


def test_function_named_jit_of_something_else_is_no_kernel():
    assert analyse("import numba\n@numba.jit\ndef k(n):\n    pass\n").kernels == ()


def test_torch_work_in_every_spelling_is_listed_with_kind_and_line():
    body = """
from torch import matmul

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.net = nn.Sequential(nn.ReLU(), nn.Conv2d(1, 1, 3))
        self.layers = nn.ModuleList([nn.LayerNorm(4)])
        self.weight = nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        x = self.linear(x)
        x = F.softmax(x, dim=-1)
        x = matmul(x, self.weight)
        x = x @ self.weight
        x @= x
        x = self.net(x)
        for layer in self.layers:
            x = layer(x)
        x = x.sum(dim=0)
        return torch.ops.aten.mm(x, x)
"""
    found = [(call.name, call.kind, call.line) for call in report(body).torch_calls]
    assert found == [
        ("torch.nn.Linear", "matmul", 18),
        ("torch.nn.functional.softmax", "softmax", 19),
        ("torch.matmul", "matmul", 20),
        ("@", "matmul", 21),
        ("@", "matmul", 22),
        ("torch.nn.Sequential", "convolution", 23),
        ("torch.nn.ModuleList", "normalization", 25),
        (".sum", "reduction", 26),
        ("torch.ops.aten.mm", "matmul", 27),
    ]
    assert report(body).torch_call_of("softmax", "convolution").line == 19


def test_allocation_shapes_and_other_libraries_are_no_computation():
    body = """
import math
import numpy as np

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.matmul(torch.ones(2, 2), torch.ones(2, 2))

    def forward(self, x):
        n = max(x.shape) + math.exp(1.0) + np.sum([1])
        out = torch.empty_like(x).view(-1).contiguous()
        with torch.no_grad():
            torch.cuda.synchronize()
        return out

def get_inputs():
    return [torch.matmul(torch.rand(2, 2), torch.rand(2, 2))]
"""
    assert report(body).torch_calls == ()


def test_launch_language_functions_inside_kernels_are_not_torch():
    body = """
@triton.jit
def k(x):
    tl.sum(tl.load(x), axis=0)

class ModelNew(nn.Module):
    def forward(self, x):
        k[(1,)](x)
        return x
"""
    assert report(body).torch_calls == ()


def test_classes_and_entry_point():
    found = report("class ModelNew(Model):\n    pass\n\nclass Other(nn.Module):\n    pass\n")
    assert [(c.name, c.bases) for c in found.classes] == [
        ("ModelNew", ("Model",)),
        ("Other", ("torch.nn.Module",)),
    ]
    assert found.entry_point_line == 6
    assert report("x = 1\n").entry_point_line is None
    assert report("class ModelNew:\n    pass\n", "Other").entry_point_line is None


def test_syntax_error_has_line_and_excerpt():
    found = analyse("x = 1\nif x\n    y = 2\n")
    assert found.syntax_error is not None
    assert (found.syntax_error.line, found.syntax_error.excerpt) == (2, "if x")
    assert "expected ':'" in found.syntax_error.message


def test_lines_are_counted_as_the_parser_counts_them():
    found = analyse("x = '\\x0c'\n\x0c\nclass ModelNew:\r    pass\r")
    assert [(c.line, c.excerpt) for c in found.classes] == [(3, "class ModelNew:")]


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\0",
        "(" * 5_000,
        "-" * 20_000 + "1",
        "x = \ud800",
        "a" + ".b" * 20_000,
        "[" * 150 + "]" * 150,
        "x = '\\d'",
        "",
        "\f\n\r\n\x85class ModelNew: pass",
    ],
    ids=[
        "nul",
        "parentheses",
        "signs",
        "surrogate",
        "attributes",
        "nested",
        "escape",
        "empty",
        "ff",
    ],
)
def test_hostile_text_never_raises(source):
    code = "import sys; from kernelgym.submission.static import analyse; analyse(eval(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, ascii(source)], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_source_beyond_the_cap_is_not_parsed():
    assert analyse("x = 1\n" * (MAX_ANALYSED_BYTES // 6 + 1)).too_long


def test_analysis_imports_no_torch():
    code = (
        "import sys, kernelgym.submission.static;"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'triton')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
