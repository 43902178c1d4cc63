"""From what was seen of a candidate's process to an outcome with words."""

import pytest

from kernelgym.judge.classify import Context, explain, explain_failed, refused_kernel
from kernelgym.judge.peer import PeerFailed, PeerForged, PeerGarbled, PeerGone, PeerLate
from kernelgym.sandbox.jail_spec import Ended
from kernelgym.sandbox.messages import Compiled, Failed
from kernelgym.schema import Outcome

CONTEXT = Context("line one\nline two\nline three", "ModelNew", 512)


def ended(status=None, *, oom=False) -> Ended:
    return Ended(status, oom, None, 0)


@pytest.mark.parametrize(
    ("stage", "failed", "outcome", "code"),
    [
        ("load", {"type": "SyntaxError"}, Outcome.COMPILE_ERROR, "syntax_error"),
        ("load", {"type": "IndentationError"}, Outcome.COMPILE_ERROR, "syntax_error"),
        ("load", {"type": "ModuleNotFoundError"}, Outcome.COMPILE_ERROR, "import_error"),
        ("load", {"type": "NameError"}, Outcome.COMPILE_ERROR, "load_error"),
        ("load", {"type": "SystemExit"}, Outcome.CRASH, "early_exit"),
        ("load", {"type": "MemoryError", "out_of_memory": True}, Outcome.OUT_OF_MEMORY,
         "exception_out_of_memory"),
        ("build", {"type": "ValueError"}, Outcome.RUNTIME_ERROR, "constructor_error"),
        ("build", {"type": "AttributeError", "message": "no 'ModelNew' here"},
         Outcome.RUNTIME_ERROR, "constructor_error"),
        ("build", {"type": "AttributeError",
                   "message": "module 'candidate' has no attribute 'ModelNew'"},
         Outcome.COMPILE_ERROR, "missing_entry_point"),
        ("forward", {"type": "ValueError"}, Outcome.RUNTIME_ERROR, "forward_error"),
        ("forward", {"type": "RuntimeError", "unsupported": True}, Outcome.RUNTIME_ERROR,
         "needs_gpu"),
        ("forward", {"type": "triton.compiler.errors.CompilationError", "compiling": True},
         Outcome.COMPILE_ERROR, "kernel_compile_error"),
    ],
)  # fmt: skip
def test_exceptions(stage, failed, outcome, code):
    stop = explain_failed(stage, Failed(**{"message": "m"} | failed), CONTEXT)
    assert (stop.outcome, stop.failure.code, stop.failure.stage) == (outcome, code, stage)


def test_a_line_comes_with_its_surroundings():
    failed = Failed(type="ValueError", message="m", line=2, traceback="t")
    failure = explain(PeerFailed("forward", failed), ended(), CONTEXT).failure
    assert failure.line == 2
    assert "> " in failure.excerpt
    assert "line two" in failure.excerpt
    assert failure.traceback == "t"


@pytest.mark.parametrize(
    ("error", "end", "outcome", "code", "words"),
    [
        (PeerLate("forward"), ended(), Outcome.TIMEOUT, "deadline", "did not end in time"),
        (PeerLate("forward"), ended(oom=True), Outcome.OUT_OF_MEMORY, "memory_limit", "512 MiB"),
        (PeerGone("forward"), ended(0), Outcome.CRASH, "early_exit", "exit status 0"),
        (PeerGone("load"), ended(3 << 8), Outcome.CRASH, "early_exit", "exit status 3"),
        (PeerGone("forward"), ended(11), Outcome.CRASH, "signal", "SIGSEGV"),
        (PeerGone("forward"), ended(9, oom=True), Outcome.OUT_OF_MEMORY, "memory_limit", ""),
        (PeerGone("forward"), ended(), Outcome.CRASH, "killed", "killed"),
        (PeerGarbled("forward", "b"), ended(), Outcome.CRASH, "channel_violation", "b"),
    ],
)
def test_ends(error, end, outcome, code, words):
    stop = explain(error, end, CONTEXT)
    assert (stop.outcome, stop.failure.code) == (outcome, code)
    assert words in stop.failure.message
    assert stop.finding is None


def test_a_forged_frame_is_a_hack_with_evidence_from_outside():
    stop = explain(PeerForged("forward", "a frame"), ended(), CONTEXT)
    assert stop.outcome is Outcome.HACK
    assert stop.finding is not None
    assert (stop.finding.severity, stop.finding.evidence) == ("hack", "outside")


def test_a_refused_kernel_points_to_its_line():
    compiled = Compiled(kind="error", kernel="k", target=90, message="bad", line=4, excerpt="x")
    stop = refused_kernel(compiled)
    assert stop.outcome is Outcome.COMPILE_ERROR
    assert (stop.failure.line, stop.failure.excerpt) == (4, "x")
    assert "sm_90" in stop.failure.message
