"""Candidates that return or raise what they should not: put in words, never the harness's death."""

from __future__ import annotations

import pytest
import torch
from candidate_driver import RequestFailed

from kernelgym.sandbox.frames import ChannelClosed

FORWARD = """
import os
import sys
import torch


class Strange(torch.Tensor):
    pass


class BrokenList(list):
    def __iter__(self):
        raise RuntimeError("not iterable today")


class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")


class NotText(Exception):
    def __str__(self):
        class Text(str):
            pass
        return Text("x")


class Loud(Exception):
    def __str__(self):
        return "loud " * 4_000_000


class Outside(BaseException):
    pass


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def loop():
    value = []
    value.append(value)
    return value


def deep(n):
    return deep(n - 1) + 1 if n else 1 // 0


class ModelNew(torch.nn.Module):
    def forward(self, x):
        {body}
"""


@pytest.fixture
def forward(start):
    def run(body: str, **options):
        driver = start(FORWARD.replace("{body}", body), **options)
        driver.build()
        return driver

    return run


X = torch.arange(4.0)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("None", {"k": "none"}),
        ("3", {"k": "int", "v": 3}),
        ("True", {"k": "bool", "v": True}),
        ("'text'", {"k": "str", "v": "text"}),
        ("float('nan')", {"k": "float", "v": "nan"}),
        ("1j", {"k": "complex", "v": ["0x0.0p+0", "0x1.0000000000000p+0"]}),
        ("torch.float16", {"k": "dtype", "v": "float16"}),
        ("b'bytes'", {"k": "other", "v": "bytes"}),
        ("(i for i in x)", {"k": "other", "v": "generator"}),
        ("object", {"k": "other", "v": "type"}),
        ("{1.5: x}", {"k": "other", "v": "dict with keys that are not strings or integers"}),
        ("[x] * 10_001", {"k": "other", "v": "more than 10000 tensors"}),
    ],
)
def test_values_that_are_no_tensors_are_described(forward, expression, expected):
    assert forward(f"return {expression}").call(X).tree == expected


@pytest.mark.parametrize("expression", ["nested(500)", "loop()"])
def test_nesting_is_bounded(forward, expression):
    assert "nested too deeply" in str(forward(f"return {expression}").call(X).tree)


@pytest.mark.parametrize(
    ("expression", "status"),
    [
        ("x.to_sparse()", -1),
        ("torch.empty(3, device='meta')", -1),
        ("torch.zeros(1).expand(10**12)", -1),
        ("torch.zeros(1 << 20)", -1),
        ("torch.zeros(0, 5)", 0),
        ("torch.zeros(())", 0),
        ("x.as_subclass(Strange)", 0),
        ("torch.nn.Parameter(x.clone())", 0),
    ],
)
def test_tensors_that_cannot_be_copied_are_marked(forward, expression, status):
    output = forward(f"return {expression}").call(X)
    (layout,) = output.tensors
    assert layout.offset == status


def test_the_class_of_a_returned_tensor_is_told(forward):
    assert forward("return x.as_subclass(Strange)").call(X).tree["c"] == "Strange"
    assert forward("return torch.nn.Parameter(x)").call(X).tree["c"] == "Parameter"


def test_the_device_of_a_returned_tensor_is_told(forward):
    output = forward("return x, torch.empty(3, device='meta')").call(X)
    assert output.devices == ("cpu", "meta")


def test_tensors_behind_one_that_does_not_fit_still_arrive(forward):
    driver = forward("return {'big': torch.zeros(1 << 20), 'small': x + 1}")
    output = driver.call(X)
    assert [layout.offset >= 0 for layout in output.tensors] == [False, True]
    with pytest.raises(ValueError, match="outside its pool"):
        driver.value(output)


@pytest.mark.parametrize(
    ("expression", "described"),
    [("'x' * 5_000_000", "a long string"), ("10 ** 5000", "a huge integer")],
)
def test_huge_scalars_are_named_not_sent(forward, expression, described):
    assert forward(f"return {expression}").call(X).tree == {"k": "other", "v": described}


@pytest.mark.parametrize("expression", ["['y' * 100] * 30_000", "'\\ud800'"])
def test_what_is_too_large_or_no_text_is_refused_in_words(forward, expression):
    driver = forward(f"return {expression}")
    with pytest.raises(RequestFailed) as caught:
        driver.call(X)
    assert caught.value.failed.message
    driver.report()


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("sys.exit(0)", "SystemExit", "0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise GeneratorExit", "GeneratorExit", ""),
        ("raise Outside('x')", "candidate.Outside", "x"),
        ("raise Mute", "candidate.Mute", "<its text could not be read: ValueError>"),
        ("raise NotText", "candidate.NotText", "<its text is not a string>"),
        ("return BrokenList()", "RuntimeError", "not iterable today"),
        ("return x @ torch.zeros(7, 7)", "RuntimeError", "cannot be multiplied"),
        ("raise ExceptionGroup('many', [ValueError(i) for i in range(100_000)])",
         "ExceptionGroup", "many (100000 sub-exceptions)"),
    ],
)  # fmt: skip
def test_exceptions_are_described_and_the_process_lives_on(forward, body, kind, message):
    driver = forward(body)
    for _ in range(2):
        with pytest.raises(RequestFailed) as caught:
            driver.call(X)
        assert caught.value.failed.type == kind
        assert message in caught.value.failed.message
        assert caught.value.failed.line == FORWARD[: FORWARD.index("{body}")].count("\n") + 1 or (
            "BrokenList" in body
        )


def test_a_loud_exception_is_cut(forward):
    with pytest.raises(RequestFailed) as caught:
        forward("raise Loud").call(X)
    failed = caught.value.failed
    assert len(failed.message) < 8_000
    assert len(failed.traceback) < 16_000
    assert "characters left out" in failed.message


def test_a_deep_recursion_is_cut_and_points_to_its_line(forward):
    with pytest.raises(RequestFailed) as caught:
        forward("return deep(10**9)").call(X)
    assert caught.value.failed.type == "RecursionError"
    assert "frames left out" in caught.value.failed.traceback


def test_a_traceback_shows_the_candidate_and_no_directory_of_the_host(forward):
    with pytest.raises(RequestFailed) as caught:
        forward("return torch.nn.functional.linear(x, torch.zeros(3, 9))").call(X)
    trace = caught.value.failed.traceback
    assert 'File "candidate.py", line' in trace
    assert "return torch.nn.functional.linear(x, torch.zeros(3, 9))" in trace
    assert "kernelgym" not in trace
    assert "/" not in trace


@pytest.mark.parametrize(
    "body",
    [
        "torch.empty(1 << 60)",
        "raise MemoryError",
        "raise torch.OutOfMemoryError('CUDA out of memory')",
    ],
)
def test_memory_that_ran_out_is_told(forward, body):
    with pytest.raises(RequestFailed) as caught:
        forward(body).call(X)
    assert caught.value.failed.out_of_memory


@pytest.mark.parametrize(
    "body", ["os._exit(0)", "os.kill(os.getpid(), 11)", "os.closerange(3, 4096)"]
)
def test_a_process_that_goes_away_closes_the_channel(forward, body):
    driver = forward(body)
    with pytest.raises(ChannelClosed):
        driver.call(X)


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("import torch\nclass ModelNew(:\n    pass\n", "SyntaxError", 2),
        ("x = 1\0", "SyntaxError", None),
        ("def f():\n\treturn 1\n        return 2\n", "TabError", 3),
        (b"# \xff\xfe\n", "SyntaxError", None),
        ("import torch\nimport no_such_module\n", "ModuleNotFoundError", 2),
        ("1 / 0", "ZeroDivisionError", 1),
        ("import sys\nsys.exit(3)", "SystemExit", 2),
    ],
)
def test_a_source_that_does_not_load_fails_with_its_line(start, source, kind, line):
    driver = start()
    driver.setup()
    with pytest.raises(RequestFailed) as caught:
        driver.load(source)
    assert caught.value.failed.type == kind
    if line is not None:
        assert caught.value.failed.line == line


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("import torch", "AttributeError"),
        ("ModelNew = 5", "TypeError"),
        ("class ModelNew:\n    def __init__(self, n): pass", "TypeError"),
        ("class ModelNew:\n    def __init__(self): raise OSError('no')", "OSError"),
    ],
)
def test_a_module_that_cannot_be_built_fails(start, source, kind):
    driver = start(source)
    with pytest.raises(RequestFailed) as caught:
        driver.build()
    assert caught.value.failed.type == kind


def test_a_broken_state_is_reported_as_missing(start):
    source = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("wide", torch.zeros(1).expand(4))
        self.lazy = torch.nn.LazyLinear(3)
"""
    driver = start(source)
    state = {name: torch.ones(4) for name in ("wide", "lazy.weight", "absent")}
    claims = driver.build(state=state)
    assert set(claims.missing_state) == {"wide", "lazy.weight", "absent"}
    assert any("single memory location" in note for note in claims.notes)


def test_requests_out_of_turn_fail_and_do_not_kill(start):
    driver = start()
    for request in (driver.build, lambda: driver.load("x = 1"), lambda: driver.call(X)):
        with pytest.raises(RequestFailed):
            request()
    driver.setup()
    driver.load("x = 1")


def test_threads_left_behind_do_not_keep_the_process(start):
    driver = start(
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(3600,)).start()\n"
        "class ModelNew:\n    def __call__(self, x): return x + 1\n"
    )
    driver.build()
    assert torch.equal(driver.value(driver.call(X)), X + 1)
    from kernelgym.sandbox.frames import Kind

    driver.channel.send(Kind.STOP, 99)
    with pytest.raises(ChannelClosed):
        driver.receive()
