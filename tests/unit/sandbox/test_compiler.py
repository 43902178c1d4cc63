"""The compiler process: resources of what compiles, line and excerpt of what does not."""

from __future__ import annotations

import pytest
import torch
from candidate_driver import RequestFailed

from kernelgym.sandbox.messages import LaunchSignature

HEAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

"""


def launch(kernel: str, line: int, signature: dict[str, str], constants=None, **rest):
    return LaunchSignature(
        kernel=kernel, line=line, signature=signature, constants=constants or {}, **rest
    )


SCALE = launch(
    "scale",
    7,
    {"x": "*fp32", "out": "*fp32", "n": "i32", "factor": "fp32", "BLOCK": "constexpr"},
    {"BLOCK": 1024},
    options={"num_warps": 8},
    aligned=("x", "out", "n"),
)


def compile_source(start, source: str, *targets: int, launches=(SCALE,)):
    driver = start(source, role="compiler")
    return driver.compile(tuple(launches), *targets)


def test_registers_shared_memory_and_spills_for_each_target(start):
    entries = compile_source(start, HEAD, 80, 90, 100)
    assert [entry.target for entry in entries] == [80, 90, 100]
    for entry in entries:
        assert (entry.kind, entry.kernel, entry.num_warps) == ("ok", "scale", 8)
        assert 8 <= entry.registers <= 255
        assert (entry.shared_bytes, entry.spill_bytes) == (0, 0)


def test_what_was_recorded_in_the_interpreter_compiles(start):
    source = (
        HEAD
        + """
@triton.autotune([triton.Config({"SIZE": 32}), triton.Config({"SIZE": 64})], key=["n"])
@triton.heuristics({"EVEN": lambda a: a["n"] % a["SIZE"] == 0})
@triton.jit
def product(x, y, out, n, SIZE: tl.constexpr, EVEN: tl.constexpr, TYPE: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i[None, :]
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(y + at)).to(TYPE))

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        scale[(4,)](x, out, x.numel(), 0.5, BLOCK=1024)
        product[(1,)](x, x, out, x.numel(), TYPE=tl.float32)
        return out
"""
    )
    driver = start(source)
    driver.build()
    driver.call(torch.randn(64, 64))
    entries = compile_source(start, source, 90, launches=driver.report().launches)
    assert [(entry.kernel, entry.kind) for entry in entries] == [
        ("scale", "ok"),
        ("product", "ok"),
    ]
    assert entries[1].shared_bytes > 0


def test_spills_are_counted(start):
    crowded = launch(
        "scale", 7, SCALE.signature, {"BLOCK": 65536}, options={"num_warps": 4, "maxnreg": 32}
    )
    (entry,) = compile_source(start, HEAD, 90, launches=[crowded])
    assert entry.registers == 32
    assert entry.spill_bytes > 0


REFUSED = {
    "undefined name": ("no_such_name + 1", 2),
    "wrong type": ("tl.load(x + 0.5)", 2),
    "no such function": ("tl.no_such_function(x)", 2),
    "static assertion": ("tl.static_assert(BLOCK == 3)", 2),
    "not a power of two": ("tl.arange(0, 3)", 2),
    "shapes": ("tl.zeros((2,), tl.float32) + tl.zeros((4,), tl.float32)", 2),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_kernel_that_triton_refuses_is_an_error_with_line_and_excerpt(start, case):
    statement, below = REFUSED[case]
    source = (
        HEAD
        + f"""
@triton.jit
def bad(x, BLOCK: tl.constexpr):
    v = {statement}
"""
    )
    first = HEAD.count("\n") + 2
    bad = launch("bad", first, {"x": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 16})
    (entry,) = compile_source(start, source, 90, launches=[bad])
    assert entry.kind == "error"
    assert entry.line == first + below
    assert f"> {entry.line:4d} |     v = {statement}" in entry.excerpt
    assert entry.message
    assert "/" not in entry.message.replace("__", "")


def test_an_error_in_a_function_that_the_kernel_calls_points_there(start):
    source = (
        HEAD
        + """
@triton.jit
def inner(v):
    w = v + 1
    return w.no_such_method()

@triton.jit
def outer(x):
    tl.store(x, inner(tl.load(x)))
"""
    )
    first = HEAD.count("\n")
    outer = launch("outer", first + 7, {"x": "*fp32"})
    (entry,) = compile_source(start, source, 90, launches=[outer])
    assert (entry.kind, entry.line) == ("error", first + 5)
    assert "no_such_method" in entry.excerpt


def test_too_much_shared_memory_is_an_error_on_the_target_that_lacks_it(start):
    source = (
        HEAD
        + """
@triton.jit
def product(x, out, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i[None, :]
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(4):
        acc = tl.dot(tl.load(x + at + k), tl.load(x + at - k), acc)
    tl.store(out + at, acc)
"""
    )
    product = launch(
        "product",
        HEAD.count("\n") + 2,
        {"x": "*fp32", "out": "*fp32", "SIZE": "constexpr"},
        {"SIZE": 128},
        options={"num_warps": 8, "num_stages": 1},
        aligned=("x", "out"),
    )
    (small, large) = compile_source(start, source, 120, 90, launches=[product])
    assert large.kind == "ok"
    assert (small.kind, small.type) == ("error", "triton.runtime.errors.OutOfResources")


def test_what_cannot_be_tried_is_skipped_with_a_reason(start):
    source = HEAD + "def make():\n    @triton.jit\n    def hidden(x): pass\n    return hidden\n"
    launches = [
        launch("make.<locals>.hidden", 13, {"x": "*fp32"}),
        launch("absent", 1, {"x": "*fp32"}),
        launch("scale", 7, SCALE.signature | {"x": "unknown"}, {"BLOCK": 16}),
        launch("scale", 7, SCALE.signature, {"BLOCK": {"unknown": "object"}}),
        launch("scale", 7, SCALE.signature, {"BLOCK": {"function": "absent"}}),
        launch("scale", 7, SCALE.signature | {"x": "*no_such_type"}, {"BLOCK": 16}),
    ]
    entries = compile_source(start, source, 90, launches=launches)
    assert [entry.kind for entry in entries] == ["skipped"] * len(launches)
    assert all(entry.message for entry in entries)


def test_one_bad_kernel_does_not_spoil_the_others(start):
    source = HEAD + "@triton.jit\ndef bad(x): tl.store(x, no_such_name)\n"
    bad = launch("bad", HEAD.count("\n") + 1, {"x": "*fp32"})
    entries = compile_source(start, source, 90, launches=[SCALE, bad, SCALE])
    assert [entry.kind for entry in entries] == ["ok", "error", "ok"]


def test_namesakes_are_told_apart_by_their_line(start):
    source = HEAD + "first = scale\n@triton.jit\ndef scale(x): tl.store(x, no_such_name)\n"
    entries = compile_source(start, source, 90, launches=[SCALE])
    assert [entry.kind for entry in entries] == ["ok"]


def test_code_that_asks_for_a_gpu_at_import_loads(start):
    source = (
        """
import torch
DEVICE = torch.device("cuda")
BUFFER = torch.zeros(4, device=DEVICE)
COUNT = torch.cuda.get_device_properties(0).multi_processor_count
"""
        + HEAD
    )
    moved = SCALE.model_copy(update={"line": SCALE.line + 6 - 1})
    assert compile_source(start, source, 90, launches=[moved])[0].kind == "ok"


@pytest.mark.parametrize("source", ["x = (", "import no_such_module", "raise SystemExit"])
def test_a_source_that_does_not_load_fails_and_the_process_lives(start, source):
    driver = start(role="compiler")
    for _ in range(2):
        with pytest.raises(RequestFailed):
            driver.load(source)
