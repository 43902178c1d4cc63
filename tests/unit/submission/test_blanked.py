"""A source without the bodies of its kernels."""

from __future__ import annotations

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
    assert "one[1,](x, 3, BLOCK=16)" in text


def test_what_cannot_be_read_or_has_no_kernel_is_left_alone():
    assert blank("def broken(:") is None
    assert blank("def f(): pass") is None
    assert blank("x = 1\n" * 200_000) is None
