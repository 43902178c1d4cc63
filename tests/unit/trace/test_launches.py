"""Which launches are seen, which of them are the candidate's own, and how they were made."""

from __future__ import annotations

import pytest
import torch

from kernelgym.sandbox.evidence import Event

HEAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)

"""
X = torch.arange(64.0)


def run(start, source: str, *arguments):
    driver = start(HEAD + source)
    driver.build()
    output = driver.call(*(arguments or (X,)))
    return driver, driver.value(output)


def model(body: str) -> str:
    lines = "\n        ".join(body.strip().splitlines())
    return f"""
class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        {lines}
        return out
"""


@pytest.mark.parametrize(
    ("grid", "seen"),
    [
        ("(4,)", (4, 1, 1)),
        ("(4, 1)", (4, 1, 1)),
        ("(4, 1, 2)", (4, 1, 2)),
        ("[4, 2]", (4, 2, 1)),
        ("lambda meta: (triton.cdiv(64, meta['BLOCK']),)", (4, 1, 1)),
        ("(0,)", (0, 1, 1)),
    ],
)
def test_every_form_of_a_grid_is_seen(start, grid, seen):
    driver, _ = run(start, model(f"copy[{grid}](x, out, 64, BLOCK=16)"))
    assert [launch.grid for launch in driver.launches()] == [seen]


def test_each_launch_is_one_record_with_the_number_of_its_call(start):
    driver, value = run(start, model("for _ in range(3): copy[(4,)](x, out, 64, 16, num_warps=2)"))
    assert torch.equal(value, X)
    launches = driver.launches()
    assert [launch.num_warps for launch in launches] == [2, 2, 2]
    assert len({launch.digest for launch in launches}) == 1
    driver.call(X)
    later = driver.launches()
    assert {launch.call for launch in later} == {launches[0].call + 1}


ASKS = """
THINGS = {}
@triton.constexpr_function
def ask():
    THINGS["out"].copy_(THINGS["x"].exp())
@triton.jit
def asks(x, out):
    ask()
"""


@pytest.mark.parametrize("where", ["body", "grid"])
def test_a_kernel_in_whose_body_torch_computes_has_not_run(start, where):
    body = "THINGS.update(x=x, out=out)\n"
    if where == "body":
        body += "asks[(1,)](x, out)"
    else:
        body += "copy[lambda meta: (ask(), 0)[1:]](x, out, 64, BLOCK=16)"
    driver, value = run(start, ASKS + model(body))
    assert torch.equal(value, X.exp())
    failed = driver.records(Event.FAILED)
    assert [r.name for r in failed] == (["asks"] if where == "body" else [])


CALLS = """
def plain(x):
    return x
@triton.jit
def through(x):
    {name}(x)
def make(inner):
    @triton.jit
    def calls(x, out):
        i = tl.arange(0, 64)
        {body}
    return calls
calls = make(plain)
def max(x):
    return x
"""


@pytest.mark.parametrize(
    ("name", "body", "refused"),
    [
        ("tl.load", "plain(x)", True),
        ("plain", "through(x)", True),
        ("tl.load", "inner(x)", True),
        ("tl.load", "tl.store(out + i, tl.max(tl.load(x + i), axis=0))", False),
    ],
)
def test_a_kernel_may_not_call_a_plain_function_of_the_file(start, name, body, refused):
    driver = start(HEAD + CALLS.format(name=name, body=body) + model("calls[(1,)](x, out)"))
    driver.build()
    if not refused:
        assert torch.equal(driver.value(driver.call(X)), torch.full_like(X, 63.0))
        return
    with pytest.raises(Exception, match="Unsupported function referenced: plain"):
        driver.call(X)
    assert len(driver.launches()) == 1  # so that it is compiled for real


def test_a_kernel_that_is_never_launched_or_only_warmed_up_leaves_no_record(start):
    driver, _ = run(start, model("copy.warmup(x, out, 64, BLOCK=16, grid=(4,))"))
    assert driver.launches() == []


def test_launches_at_import_and_in_the_constructor_are_seen(start):
    source = """
copy[(1,)](torch.ones(16), torch.ones(16), 16, BLOCK=16)
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        copy[(2,)](torch.ones(32), torch.ones(32), 32, BLOCK=16)
    def forward(self, x):
        return x + 1
"""
    driver, _ = run(start, source)
    assert [launch.grid[0] for launch in driver.launches()] == [1, 2]


FOREIGN = '''
import importlib.util, os, sys, tempfile
SOURCE = """
import triton
import triton.language as tl
@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))
"""
path = os.path.join(tempfile.mkdtemp(), {name!r})
with open(path, "w") as file:
    file.write(SOURCE)
spec = importlib.util.spec_from_file_location("other", path)
other = importlib.util.module_from_spec(spec)
spec.loader.exec_module(other)
'''


@pytest.mark.parametrize("name", ["other.py", "candidate.py"])
def test_a_kernel_from_another_file_is_not_own_whatever_its_names(start, name):
    source = FOREIGN.format(name=name) + model("other.copy[(1,)](x, out, 64, BLOCK=64)")
    driver, value = run(start, source)
    (launch,) = driver.launches()
    assert (launch.name, launch.own) == ("copy", False)
    assert torch.equal(value, X)
    assert driver.report().launches == ()


def test_a_forged_file_name_does_not_make_a_kernel_own(start):
    source = (
        FOREIGN.format(name="other.py")
        + "other.copy.fn.__code__ = other.copy.fn.__code__.replace(co_filename=__file__)\n"
        + model("other.copy[(1,)](x, out, 64, BLOCK=64)")
    )
    driver, _ = run(start, source)
    assert [launch.own for launch in driver.launches()] == [False]


def test_kernels_made_in_functions_and_classes_are_own(start):
    source = """
def make(add):
    @triton.jit
    def inner(x, out, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i) + 1)
    return inner
class Holder:
    @staticmethod
    @triton.jit
    def held(x, out, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i) + 2)
""" + model("make(1)[(1,)](x, out, BLOCK=64)\nHolder.held[(1,)](out, out, BLOCK=64)")
    driver, value = run(start, source)
    assert [(launch.name, launch.own) for launch in driver.launches()] == [
        ("inner", True),
        ("held", True),
    ]
    assert torch.equal(value, X + 3)


AUTOTUNED = """
def prune(configs, arguments, **_):
    return [config for config in configs if config.kwargs["BLOCK"] <= arguments["n"]]

@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1 << 20}, num_warps=8),
        triton.Config({"BLOCK": 32}, num_warps=2, num_stages=1),
        triton.Config({"BLOCK": 16}),
    ],
    key=["n"],
    prune_configs_by={"early_config_prune": prune},
    reset_to_zero=["out"],
)
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i) + 1)
    else:
        tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
"""


def test_autotuning_is_cut_to_the_first_configuration_and_said(start):
    body = "tuned[lambda meta: (triton.cdiv(64, meta['BLOCK']),)](x, out, 64)"
    driver, value = run(start, AUTOTUNED + model(body))
    assert torch.equal(value, X + 1)
    records = driver.evidence.take()
    notes = [record.name for record in records if record.event is Event.NOTE]
    assert notes == ["autotune cut to 1 of 3 configurations"]
    (launch,) = (record for record in records if record.event is Event.LAUNCH)
    assert (launch.grid[0], launch.num_warps, launch.own) == (2, 2, True)
    report = driver.report()
    assert report.notes == ("autotune cut to 1 of 3 configurations (tuned)",)
    assert report.launches[0].options == {"num_warps": 2, "num_stages": 1, "num_ctas": 1}
    assert report.launches[0].constants == {"BLOCK": 32, "EVEN": True}


def test_signatures_are_what_triton_would_compile(start):
    source = """
@triton.jit
def many(x, skewed, count, one, big, scale, flag, nothing, BLOCK: tl.constexpr, TYPE: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(skewed + i).to(TYPE))
""" + model("many[(1,)](out, x[1:], 7, 1, 1 << 40, 0.5, True, None, BLOCK=32, TYPE=tl.float32)")
    driver, _ = run(start, source, torch.zeros(64))
    (signature,) = driver.report().launches
    assert signature.kernel == "many"
    assert signature.signature == {
        "x": "*fp32",
        "skewed": "*fp32",
        "count": "i32",
        "one": "constexpr",
        "big": "i64",
        "scale": "fp32",
        "flag": "u1",
        "nothing": "constexpr",
        "BLOCK": "constexpr",
        "TYPE": "constexpr",
    }
    assert signature.constants == {
        "one": 1,
        "nothing": None,
        "BLOCK": 32,
        "TYPE": {"dtype": "fp32"},
    }
    assert signature.aligned == ("x", "big")


def test_the_same_launch_is_reported_once(start):
    driver, _ = run(start, model("for _ in range(5): copy[(4,)](x, out, 64, BLOCK=16)"))
    assert len(driver.report().launches) == 1


def test_a_failed_launch_is_recorded_before_it_fails(start):
    from candidate_driver import RequestFailed

    source = """
@triton.jit
def broken(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), no_such_name)
""" + model("broken[(1,)](out, BLOCK=16)")
    driver = start(HEAD + source)
    driver.build()
    with pytest.raises(RequestFailed) as caught:
        driver.call(X)
    line = (HEAD + source).splitlines().index("    tl.store(x + tl.arange(0, BLOCK), no_such_name)")
    assert caught.value.failed.line == line + 1
    assert "no_such_name" in caught.value.failed.message
    assert not caught.value.failed.unsupported
    assert [launch.name for launch in driver.launches()] == ["broken"]
    assert len(driver.report().launches) == 1


def test_what_the_interpreter_lacks_is_not_the_candidates_fault(start):
    from candidate_driver import RequestFailed

    source = """
@triton.jit
def assembly(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x + i)],
                                  dtype=tl.float32, is_pure=True, pack=1)
    tl.store(x + i, v)
""" + model("assembly[(1,)](out, BLOCK=16)")
    driver = start(HEAD + source)
    driver.build()
    with pytest.raises(RequestFailed) as caught:
        driver.call(X)
    assert caught.value.failed.unsupported


def test_a_flood_of_launches_does_not_block(start):
    body = "for _ in range(700): empty[(1,)](x)"
    empty = "@triton.jit\ndef empty(x):\n    pass\n"
    driver, _ = run(start, empty + model(body))
    assert len(driver.launches()) == 700  # more than a pipe holds
    assert not driver.evidence.flooded


def test_the_torch_backend_records_no_launches(start):
    driver = start(HEAD + model("copy[(4,)](x, out, 64, BLOCK=16)"), setup={"backend": "torch"})
    driver.build()
    driver.call(X)
    assert driver.launches() == []


def test_an_argument_that_cannot_be_described_does_not_fail_the_launch(start):
    source = """
@triton.jit
def plus(x, out, unused, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) + 1)
""" + model("plus[(1,)](x, out, object(), N=64)")
    driver, value = run(start, source)
    assert torch.equal(value, X + 1)
    assert len(driver.launches()) == 1
    assert driver.report().launches == ()
