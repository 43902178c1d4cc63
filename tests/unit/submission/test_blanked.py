"""A source without the bodies of its kernels."""

from __future__ import annotations

import pytest

from kernelgym.submission.blanked import blank

SOURCE = '''
import triton
import triton as t
from triton import jit
import triton.language as tl

@triton.autotune(configs=[], key=[])
@triton.jit
def one(x, n, BLOCK: tl.constexpr):
    """Doc."""
    tl.store(x, 1.0)

@jit
def two(x):
    return x + 1

def plain(x):
    return x

three = t.jit(plain)

class ModelNew:
    def forward(self, x):
        one[(1,)](x, 3, BLOCK=16)
        return x
'''


def test_bodies_are_gone_and_the_rest_stays():
    blanked = blank(SOURCE)
    assert blanked is not None
    assert blanked.kernels == {"one", "two", "plain"}
    text = blanked.source
    assert "tl.store" not in text
    assert "x + 1" not in text
    head = "@triton.autotune(configs=[], key=[])\n@triton.jit\n"
    assert f"{head}def one(x, n, BLOCK: tl.constexpr):\n    pass" in text
    assert text.endswith(SOURCE[SOURCE.index("class ModelNew") :])


def test_what_cannot_be_read_or_has_no_kernel_is_left_alone():
    assert blank("def broken(:") is None
    assert blank("def f(): pass") is None


FORWARD = """
import torch.nn.functional as F

@triton.jit
def decoy(x): tl.store(x, 1.0)

def launcher(x): return decoy[(1,)](x)

def through(x):
    return torch_only(x)

def torch_only(x):
    return F.relu(x)

hidden = vars(triton)["jit"]
@hidden
def kernel(x):
    @late
    def inner():
        pass
    tl.load(x); tl.load(x)  # both

class ModelNew:
    def kernel_of(self, x):
        return through(x)
"""


def test_names_that_are_claimed_are_believed_only_where_a_kernel_can_be():
    blanked = blank(FORWARD, {"kernel", "through", "torch_only", "kernel_of", "elsewhere"})
    assert blanked is not None
    assert blanked.kernels == {"decoy", "kernel"}
    assert "def decoy(x): pass\n" in blanked.source
    assert "def kernel(x):\n    pass  # both\n" in blanked.source
    compile(blanked.source, "blanked", "exec")
    other_language = FORWARD.replace("@triton.jit", "@marked.kernel")
    blanked = blank(other_language, {"torch_only"})
    assert blanked is not None
    assert blanked.kernels == {"torch_only"}


@pytest.mark.parametrize(
    "hidden",
    [
        "# -*- coding: utf-7 -*-\n" + SOURCE.replace("+", "+-").replace("\n", "+AAo-"),
        "\ufeff" + SOURCE,
        SOURCE + "# " + "-" * 900_000,
        SOURCE + "y = " + " + ".join(["1"] * 2500),
        SOURCE + "y = 1\n" * 15_000,
    ],
    ids=["encoding", "mark", "length", "depth", "nodes"],
)
def test_no_text_is_too_odd_to_be_blanked(hidden):
    code = compile(hidden.encode(), "candidate", "exec")
    blanked = blank(hidden)
    assert blanked is not None
    assert blanked.kernels == {"one", "two", "plain"}
    assert "tl.store" not in blanked.source
    assert code.co_names == compile(blanked.source.encode(), "candidate", "exec").co_names
