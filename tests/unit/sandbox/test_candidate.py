"""The candidate harness: load, build, call, report, for candidates that mean well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from candidate_driver import RequestFailed

import kernelgym
from kernelgym.sandbox import pinning
from kernelgym.sandbox.evidence import Event
from kernelgym.sandbox.jail_spec import JailSpec
from kernelgym.sandbox.pool import view

ADD = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
        add_kernel[grid](x, y, out, x.numel(), BLOCK=1024, num_warps=8)
        return out
"""


def test_a_triton_kernel_runs_on_the_cpu_and_its_launch_is_seen(start):
    driver = start(ADD)
    driver.build()
    x, y = torch.randn(3000), torch.randn(3000)
    output = driver.call(x, y)
    assert torch.equal(driver.value(output), x + y)
    assert output.aliases == ()
    assert output.devices == ("cpu",)
    (launch,) = driver.launches()
    assert (launch.name, launch.own, launch.grid, launch.num_warps) == (
        "add_kernel",
        True,
        (3, 1, 1),
        8,
    )


LINEAR = """
import torch

class Model(torch.nn.Module):
    def __init__(self, features, scale=1.0):
        super().__init__()
        self.linear = torch.nn.Linear(features, features)
        self.register_buffer("table", torch.rand(3))
        self.drop = torch.nn.Dropout(0.5)
        self.scale = scale
        self.calls = 0

    def forward(self, x):
        return self.drop(self.linear(x)) * self.scale

ModelNew = Model
"""


def reference(features: int, seed: int):
    namespace: dict = {}
    exec(LINEAR, namespace)
    from kernelgym.sandbox.seeding import seed_everything

    seed_everything(seed)
    return namespace["Model"](features)


def test_the_same_seed_gives_the_parameters_of_the_reference(start):
    driver = start(LINEAR, setup={"backend": "torch"})
    claims = driver.build(4, 2.0, seed=123)
    assert (claims.copied_state, claims.missing_state) == ((), ())
    model, x = reference(4, 123).eval(), torch.randn(2, 4)
    with torch.no_grad():
        assert torch.equal(driver.value(driver.call(x)), model(x) * 2.0)


def test_state_is_copied_by_name_and_what_is_missing_is_told(start):
    driver = start(LINEAR, setup={"backend": "torch"})
    model = reference(4, 1).eval()
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    claims = driver.build(4, seed=999, state=state | {"gone": torch.ones(2), "drop": torch.ones(1)})
    assert set(claims.copied_state) == {"linear.weight", "linear.bias", "table"}
    assert set(claims.missing_state) == {"gone", "drop"}
    x = torch.randn(2, 4)
    with torch.no_grad():
        assert torch.equal(driver.value(driver.call(x)), model(x))


def test_state_of_another_shape_is_missing_and_noted(start):
    driver = start(LINEAR, setup={"backend": "torch"})
    claims = driver.build(4, state={"linear.weight": torch.ones(5, 4)})
    assert claims.missing_state == ("linear.weight",)
    assert "(4, 4)" in claims.notes[0]
    assert "(5, 4)" in claims.notes[0]


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)],
)
def test_the_module_has_the_precision_that_was_asked_for(start, precision, dtype):
    driver = start(LINEAR, setup={"backend": "torch"})
    driver.build(4, precision=precision)
    assert driver.value(driver.call(torch.randn(2, 4).to(dtype))).dtype == dtype


def test_the_mode_is_set_and_randomness_follows_the_seed(start):
    driver = start(LINEAR, setup={"backend": "torch"})
    driver.build(64)
    x = torch.randn(2, 64)
    evaluated = driver.value(driver.call(x, mode="eval"))
    assert (evaluated == 0).sum() == 0
    first = driver.value(driver.call(x, mode="train", seed=5))
    again = driver.value(driver.call(x, mode="train", seed=5))
    other = driver.value(driver.call(x, mode="train", seed=6))
    assert (first == 0).sum() > 0
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def model(body: str, init: str = "pass") -> str:
    return f"""
import os, random
import numpy as np
import torch

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, *inputs):
        {body}
"""


def test_every_generator_is_seeded(start):
    body = "return torch.rand(1).item(), np.random.rand(), random.random()"
    driver = start(model(body))
    driver.build()
    values = [driver.value(driver.call(seed=seed)) for seed in (3, 3, 4)]
    assert values[0] == values[1]
    assert all(a != b for a, b in zip(values[0], values[2], strict=True))


def test_no_gradient_is_recorded(start):
    driver = start(model("return (inputs[0] * 2).requires_grad, torch.is_grad_enabled()"))
    driver.build()
    assert driver.value(driver.call(torch.ones(3, requires_grad=True))) == (False, False)


def test_strides_and_shared_memory_of_inputs_are_kept(start):
    driver = start(
        model("""
        a, b, c = inputs
        return a.stride(), b.stride(), c.stride(), a.data_ptr() == c.data_ptr(), a + 0""")
    )
    driver.build()
    base = torch.arange(24.0).view(4, 6)
    *facts, copied = driver.value(driver.call(base.t(), base[:, ::2], base))
    assert facts == [(1, 6), (6, 2), (6, 1), True]
    assert torch.equal(copied, base.t())


def test_arguments_of_every_kind_arrive(start):
    driver = start(model("return inputs"))
    driver.build()
    sent = (torch.ones(2), [1, 2.5, None], {"a": (True, "text"), 3: torch.zeros(0, 4)}, 1j)
    got = driver.value(driver.call(*sent))
    assert repr(got) == repr(sent)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8,
        torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2,
    ],
)  # fmt: skip
def test_every_dtype_travels_both_ways(start, dtype):
    driver = start(model("return inputs[0].clone()"))
    driver.build()
    sent = torch.tensor([0.0, 1.0, 2.0, 3.0]).to(dtype)
    got = driver.value(driver.call(sent))
    assert got.dtype == dtype
    assert torch.equal(got.to(torch.complex64), sent.to(torch.complex64))


def test_writes_into_inputs_are_seen_by_the_judge(start):
    driver = start(model("return inputs[0].add_(1)"))
    driver.build()
    output = driver.call(torch.zeros(4))
    (layout,) = output.tensors
    assert torch.equal(
        view(driver.pools[1].flat, layout.model_copy(update={"offset": 0})), torch.ones(4)
    )
    assert output.aliases == ("0 input 0",)


@pytest.mark.parametrize(
    ("body", "aliases"),
    [
        ("return inputs[0]", ["0 input 0"]),
        ("return inputs[1].view(-1)[2:]", ["0 input 1"]),
        ("return self.weight", ["0 state weight"]),
        ("return self.table[1:]", ["0 state table"]),
        ("y = inputs[0] + 1; return y, y.t()", ["1 output 0"]),
        ("y = torch.zeros(8); return y[:4], y[4:]", []),
        ("return inputs[0] + 1, inputs[1] * 2", []),
        ("return inputs[0][:0], torch.empty(0)", []),
    ],
)
def test_outputs_that_share_memory_are_told(start, body, aliases):
    init = (
        "self.weight = torch.nn.Parameter(torch.ones(4)); "
        "self.register_buffer('table', torch.ones(4))"
    )
    driver = start(model(body, init))
    driver.build()
    output = driver.call(torch.randn(3, 3), torch.randn(2, 3))
    assert list(output.aliases) == aliases


REUSE = model("self.out.copy_(inputs[0]); return self.out", "self.out = torch.zeros(4)")
FRESH = model("return inputs[0].clone()")


@pytest.mark.parametrize(("source", "overwritten"), [(REUSE, True), (FRESH, False)])
def test_an_overwritten_earlier_output_shows(start, source, overwritten):
    driver = start(source)
    driver.build()
    first, second = torch.ones(4), torch.full((4,), 2.0)
    assert driver.call(first, keep=True).earlier == ()
    driver.call(torch.full((4,), 9.0) if not overwritten else first)  # one that is not kept
    output = driver.call(second, keep=True)
    (layout,) = output.earlier
    assert layout.offset >= 0
    again = view(driver.pools[2].flat, layout)
    assert torch.equal(again, second if overwritten else first)
    assert ("0 earlier 0" in output.aliases) == overwritten
    assert torch.equal(driver.value(output), second)


def test_operators_are_counted_when_asked(start):
    source = model("return torch.relu(inputs[0] @ inputs[0])")
    for census, expected in ((True, {"aten.mm": 1, "aten.relu": 1}), (False, {})):
        driver = start(source, setup={"census": census})
        driver.build()
        driver.call(torch.ones(3, 3))
        records = driver.records(Event.OPERATOR)
        assert {record.name: record.count for record in records} == expected


def test_a_candidate_that_is_no_module_can_be_called(start):
    driver = start("class ModelNew:\n    def __call__(self, x): return x * 2\n")
    driver.build()
    assert torch.equal(driver.value(driver.call(torch.ones(3))), torch.full((3,), 2.0))


def test_the_environment_is_private_and_empty(start):
    body = "return dict(os.environ), os.getcwd(), os.listdir('.')"
    driver = start(model(body), environment={"EXTRA": "given"})
    driver.build()
    environment, directory, files = driver.value(driver.call())
    assert environment["EXTRA"] == "given"
    assert environment["TRITON_INTERPRET"] == "1"
    assert environment["TRITON_DEFAULT_FP_FUSION"] == "1"
    root = Path(environment["TRITON_CACHE_DIR"]).parent
    for name in (
        "HOME",
        "TMPDIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_EXTENSIONS_DIR",
        "CUDA_CACHE_PATH",
    ):
        assert Path(environment[name]).parent == root
    assert (Path(directory).parent, files) == (root, [])
    assert not {"PYTEST_CURRENT_TEST", "SSH_AUTH_SOCK"} & set(environment)


def test_the_source_can_be_read_back_by_the_candidate(start):
    driver = start(model("import inspect; return inspect.getsource(type(self))"))
    driver.build()
    assert "def forward" in driver.value(driver.call())


def test_main_guards_do_not_run(start):
    start("if __name__ == '__main__':\n    raise SystemExit\n")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for the jail's namespaces")
def test_everything_works_when_this_package_cannot_be_read(start):
    package = Path(kernelgym.__file__).parent
    spec = JailSpec(level="L1", memory_bytes=2 << 30, hidden=(str(package),))
    driver = start(ADD, spec=spec)
    driver.build()
    x, y = torch.randn(3000), torch.randn(3000)
    assert torch.equal(driver.value(driver.call(x, y, keep=True)), x + y)
    driver.call(x, y, mode="train", keep=True)
    with pytest.raises(RequestFailed, match="forward"):
        driver.call(x)
    launches = driver.report().launches
    path = repr(str(package))  # empty, or not there at all where the checkout lies in /tmp
    looking = start(
        model(f"return os.listdir({path}) if os.path.exists({path}) else []"), spec=spec
    )
    looking.build()
    assert looking.value(looking.call()) == []
    compiler = start(ADD, role="compiler", spec=spec)
    assert [entry.kind for entry in compiler.compile(launches, 90)] == ["ok"]


def test_switches_of_torch_are_put_back_before_every_step(start):
    seen = (
        "state = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark\n"
        "        torch.backends.cudnn.benchmark = True\n"
        "        return state"
    )
    driver = start(None)
    assert driver.setup(backend="torch").switches == dict(pinning.PINNED)
    source = "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n" + model(seen)
    claims = driver.load(source)
    assert claims.switches["matmul_fp32"] == "tf32"
    driver.build()
    assert [driver.value(driver.call()) for _ in range(2)] == [(False, False)] * 2
    notes = driver.report().notes
    assert any("matmul_fp32 was tf32" in note for note in notes)
    assert sum("cudnn_benchmark was on" in note for note in notes) == 1
