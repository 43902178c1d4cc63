"""Loading and running the task's own code: every fault has its code."""

import gc
import os
import signal
import tempfile
import time

import pytest
import torch

from kernelgym.errors import TaskError
from kernelgym.judge.inputs import arguments, seeded_state
from kernelgym.judge.reference import Reference, convert_module, state_of

GOOD = """
import torch

class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, 2)
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        return self.linear(x)

def get_inputs():
    return [torch.rand(3, 4)]

def get_init_inputs():
    return [4]
"""


def load(source: str = GOOD, entry_point: str = "Model", **options) -> Reference:
    return Reference(source, entry_point, dtype=options.pop("dtype", torch.float32), **options)


def run(reference: Reference, mode="eval"):
    init = reference.make_init_arguments(1)
    model = reference.instantiate(init, 1)
    return reference.call(model, mode, reference.make_inputs(2), 3)


def code_of(source: str, **options) -> str:
    with pytest.raises(TaskError) as caught:
        run(load(source, **options))
    return caught.value.code


def test_a_good_reference_runs():
    returned = run(load())
    assert returned.tensors[0].shape == (3, 2)
    assert not returned.tensors[0].requires_grad


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("import torch", "import no_such_module"), "reference_import_error"),
        (("import torch", "import torch\nraise SystemExit(0)"), "reference_import_error"),
        (("class Model(", "class Other("), "reference_missing_model"),
        (("class Model(torch.nn.Module)", "class Model"), "reference_missing_model"),
        (("def get_inputs", "def other"), "reference_inputs_error"),
        (("return [torch.rand(3, 4)]", "return torch.rand(3, 4)"), "reference_inputs_error"),
        (("return [torch.rand(3, 4)]", "return {'x': 1}"), "reference_inputs_error"),
        (("return [torch.rand(3, 4)]", "return [object()]"), "reference_inputs_error"),
        (("return [torch.rand(3, 4)]", "return [torch.eye(3).to_sparse()]"),
         "reference_inputs_error"),
        (("return [torch.rand(3, 4)]", "raise KeyError(1)"), "reference_inputs_error"),
        (("return [4]", "raise KeyError(1)"), "reference_init_error"),
        (("return [4]", "return []"), "reference_init_error"),
        (("return [4]", "return [5]"), "reference_forward_error"),
        (("return self.linear(x)", "raise SystemExit(0)"), "reference_forward_error"),
        (("return self.linear(x)", "return object()"), "reference_bad_output"),
        (("return self.linear(x)", "return None"), "reference_bad_output"),
        (("return self.linear(x)", "return (x, 'text', lambda: 1)"), "reference_bad_output"),
        (("return self.linear(x)", "return x.to_sparse()"), "reference_bad_output"),
        (("return self.linear(x)", "return torch.empty(1 << 50)"), "reference_does_not_fit"),
        (("return self.linear(x)", "raise MemoryError"), "reference_does_not_fit"),
    ],
)  # fmt: skip
def test_faults_have_codes(change, code):
    assert change[0] in GOOD
    assert code_of(GOOD.replace(*change)) == code


def test_a_loop_is_interrupted_and_says_where():
    source = GOOD.replace("return self.linear(x)", "\n        while True: pass")
    started = time.monotonic()
    with pytest.raises(TaskError) as caught:
        run(load(source, limit_s=0.3))
    assert caught.value.code == "reference_timeout"
    assert time.monotonic() - started < 20
    assert "while True" in caught.value.traceback
    assert "reference.py" in caught.value.traceback


def test_a_loop_that_swallows_the_alarm_is_found_out_at_the_end():
    source = GOOD.replace(
        "return self.linear(x)",
        "\n        for _ in range(2):\n            try:\n                while True: pass\n"
        "            except BaseException:\n                pass\n        return self.linear(x)",
    )
    with pytest.raises(TaskError) as caught:
        run(load(source, limit_s=0.2))
    assert caught.value.code == "reference_timeout"
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_a_syntax_error_is_shown_with_its_line_and_no_frame_of_ours():
    with pytest.raises(TaskError) as caught:
        load("def broken(:\n    pass\n")
    lines = caught.value.traceback.splitlines()
    assert lines[0].strip() == 'File "reference.py", line 1'
    assert lines[1].strip() == "def broken(:"
    assert lines[-1].startswith("SyntaxError: ")


def test_tracebacks_name_no_path_of_the_host():
    with pytest.raises(TaskError) as caught:
        run(load(GOOD.replace("return self.linear(x)", "return torch.nn.functional.relu(None)")))
    text = caught.value.traceback
    assert 'File "reference.py", line' in text
    assert os.path.dirname(torch.__file__) not in text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_precision_reaches_parameters_and_inputs_but_not_integers(dtype):
    reference = load(dtype=dtype)
    model = reference.instantiate(reference.make_init_arguments(1), 1)
    state = state_of(model)
    assert state["linear.weight"].dtype == dtype
    assert state["count"].dtype == torch.int64
    assert reference.make_inputs(1).tensors[0].dtype == dtype
    assert run(reference).tensors[0].dtype == dtype


def test_complex_parameters_survive_a_conversion():
    model = torch.nn.Module()
    model.z = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    assert convert_module(model, torch.float16).z.dtype == torch.complex64


def test_seeds_decide_and_calls_do_not():
    reference = load()
    first = reference.make_inputs(7).tensors[0]
    reference.make_inputs(8)
    assert torch.equal(first, reference.make_inputs(7).tensors[0])
    assert not torch.equal(first, reference.make_inputs(8).tensors[0])
    init = reference.make_init_arguments(1)
    weights = [state_of(reference.instantiate(init, seed))["linear.weight"] for seed in (5, 5, 6)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_generator_state_tells_whether_something_was_drawn():
    state = seeded_state(3)
    assert state == seeded_state(3)
    assert state != seeded_state(4)


def test_no_gradient_is_recorded_and_modes_are_set():
    source = GOOD.replace("return self.linear(x)", "return x + float(self.training)")
    reference = load(source)
    model = reference.instantiate(reference.make_init_arguments(1), 1)
    inputs = arguments([torch.ones(1)], None)
    assert reference.call(model, "eval", inputs, 0).tensors[0].item() == 1.0
    assert reference.call(model, "train", inputs, 0).tensors[0].item() == 2.0


def test_a_copy_is_independent_and_a_model_that_cannot_be_copied_is_made_again():
    for extra in ("", "self.lock = __import__('threading').Lock(); "):
        source = GOOD.replace("super().__init__()", f"super().__init__(); {extra}")
        reference = load(source)
        init = reference.make_init_arguments(1)
        model = reference.instantiate(init, 4)
        twin = reference.copy(model, init, 4)
        with torch.no_grad():
            twin.linear.weight.zero_()
        assert not torch.equal(model.linear.weight, twin.linear.weight)
        assert torch.equal(model.linear.bias, twin.linear.bias)


def test_nothing_of_a_reference_stays_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = "import torch\nclass Model(torch.nn.Module):\n    pass\n"
    reference = Reference(source, "Model", dtype=torch.float32)
    assert len(list(tmp_path.iterdir())) == 1
    del reference
    gc.collect()
    assert not list(tmp_path.iterdir())
