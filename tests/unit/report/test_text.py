"""The text of a report: every outcome, every missing number with its reason, hostile text."""

import pytest

from kernelgym.report.printable import gist, one_line, printable
from kernelgym.report.table import table
from kernelgym.report.text import lines_of, report_of
from kernelgym.schema import (
    EvalResult,
    Failure,
    Finding,
    KernelRecord,
    Outcome,
    Profile,
    Provenance,
    Timing,
    Trial,
)

PROVENANCE = Provenance(source_hash="7f3a" * 16, jail="L1", wall_seconds=0.83)


def result(outcome="correct", **fields):
    fields.setdefault("provenance", PROVENANCE)
    return EvalResult(
        task="builtin/softmax", outcome=outcome, correct=outcome == "correct", **fields
    )


def text(found, command="kernelgym eval c.py --task builtin/softmax"):
    return "\n".join(line for line, _ in lines_of(report_of(found, command)))


def trials(*passed, **fields):
    return tuple(
        Trial(index=i, mode="eval", passed=ok, max_abs_error=3.1e-4, worst_ratio=0.031, **fields)
        for i, ok in enumerate(passed)
    )


def test_correct_on_a_cpu():
    kernel = KernelRecord(name="softmax_kernel", own=True, calls=2, grid=(64, 1, 1), mode="eval")
    compiled = KernelRecord(
        name="softmax_kernel", own=True, target="sm_90", registers=32, shared_bytes=128,
        spill_bytes=0,
    )  # fmt: skip
    found = result(
        trials=trials(True, True),
        profile=Profile(kernels=(kernel,), compiled=(compiled,)),
        not_measured={"speedup": "no GPU", "coverage": "no GPU"},
    )
    assert text(found).splitlines() == [
        "builtin/softmax   triton   CPU, Triton's interpreter   standard, fp32   jail L1",
        "  compile      ok    sm_90: softmax_kernel 32 registers, 128 B shared, no spills",
        "  correctness  2/2   max abs error 3.1e-04 (3.1% of what is allowed),"
        " fresh inputs, eval mode",
        "  hacks        none",
        "  timing       off   no GPU",
        "  launches     seen  softmax_kernel x2 grid 64x1x1; coverage: no GPU",
        "correct   source 7f3a7f3a7f3a   0.83 s   next: kernelgym eval c.py --task builtin/softmax"
        " --json",
    ]


def test_correct_on_a_gpu_has_speedup_with_interval_and_the_next_target():
    timing = Timing(
        mode="eval", reference_ms=0.54, kernel_ms=0.412, speedup=1.31, speedup_low=1.28,
        speedup_high=1.34, pairs=100,
    )  # fmt: skip
    kernels = (
        KernelRecord(name="mine", own=True, share=0.46),
        KernelRecord(name="aten::addmm", own=False, share=0.48),
    )
    found = result(
        speedup=1.31, speedup_interval=(1.28, 1.34), reference_ms=0.54, kernel_ms=0.412,
        coverage=0.46, displaced=0.5, timings=(timing,), profile=Profile(kernels=kernels),
        provenance=PROVENANCE.model_copy(update={"device": "NVIDIA H200"}),
    )  # fmt: skip
    assert "NVIDIA H200" in text(found)
    assert "1.31x  [1.28, 1.34]   0.412 ms vs 0.540 ms, 100 pairs" in text(found)
    assert "own kernels take 46%" in text(found)
    assert "next target: aten::addmm 48%" in text(found)


def test_mismatch_says_which_trial_and_where():
    found = result(
        "mismatch",
        trials=trials(True) + trials(False, status="value_mismatch", detail="element (3, 1)"),
        failure=Failure(stage="compare", code="value_mismatch", message="differs\nby much"),
    )
    shown = text(found)
    assert "correctness  1/2   value_mismatch in eval trial 0: element (3, 1)" in shown
    assert "    compare/value_mismatch: differs\n      by much" in shown
    assert shown.splitlines()[-1].startswith("mismatch   ")


def test_compile_error_shows_line_and_excerpt():
    failure = Failure(
        stage="forward", code="triton_compile_error", type="CompilationError",
        message="no attribute gelu", line=17, excerpt="tl.gelu(x)", traceback="Traceback\n  deep",
    )  # fmt: skip
    shown = text(result("compile_error", failure=failure))
    assert "compile  failed  no attribute gelu" in shown
    assert "forward/triton_compile_error: CompilationError: no attribute gelu" in shown
    assert "    line 17:\n      tl.gelu(x)\n      Traceback" in shown


def test_hack_shows_the_line_and_the_kind_of_evidence():
    hack = Finding(
        id="no_own_kernel", severity="hack", message="launched nothing", evidence="claimed",
        line=12, excerpt="def decoy(x):",
    )  # fmt: skip
    other = Finding(id="mode_branch", severity="warning", message="m", evidence="inside")
    shown = text(
        result(
            "hack",
            findings=(hack, other),
            trials=trials(True),
            failure=Failure(stage="verdict", code="no_own_kernel"),
        )
    )
    assert "no_own_kernel  launched nothing [line 12: def decoy(x):] (claimed)" in shown
    assert "warning      mode_branch" in shown
    assert "none" not in shown


@pytest.mark.parametrize("outcome", [o for o in Outcome if o not in ("correct", "hack")])
def test_every_failure_has_text_with_its_code_and_a_next_step(outcome):
    shown = text(result(outcome, failure=Failure(stage="load", code="some_code", message="words")))
    assert "some_code" in shown
    assert "next: " in shown.splitlines()[-1]
    assert shown.splitlines()[-1].startswith(outcome.value)


def test_infrastructure_points_at_the_doctor_or_at_the_reference():
    gym = result("infrastructure", failure=Failure(stage="judge", code="judge_died"))
    assert "next: kernelgym doctor" in text(gym)
    jail = result("infrastructure", failure=Failure(stage="gym", code="sandbox_failed"))
    assert "kernelgym doctor; or accept a weaker jail: kernelgym eval ... --jail L0" in text(jail)
    task = result("infrastructure", failure=Failure(stage="task", code="reference_forward_error"))
    assert "mend the reference" in text(task)
    assert "jail none" not in text(task)


def test_jail_that_is_weaker_than_asked_says_so():
    weak = Provenance(jail="L0", jail_missing=("memory_cgroup",))
    assert "jail L0 without memory_cgroup" in text(result(provenance=weak))


def test_escape_sequences_and_direction_marks_of_a_candidate_are_shown_not_obeyed():
    evil = "\x1b[2J\x1b[32mcorrect\x07\u202e\x9b1m\ud800"
    failure = Failure.model_construct(
        stage="forward", code="c", type="", message=evil, traceback=evil, line=1, excerpt=evil
    )
    found = result("runtime_error", failure=Failure(stage="s", code="c"))
    found = found.model_copy(update={"failure": failure})
    shown = text(found)
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "\\x1b[2J" in shown


def test_one_line_and_printable():
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("x" * 200, 10) == "x" * 9 + "…"
    assert printable("a\tb\né") == "a   b\né"
    assert gist("at 5:32:\n  code\n  more\n\nno gelu\n") == "at 5:32: … no gelu"
    assert gist("one\ntwo") == "one two"


def test_table_wraps_its_last_column_under_itself():
    lines = table(("name", "what"), [("a", "one two three four five six seven")], width=34)
    assert lines == [
        "name  what",
        "----  ------------------------",
        "a     one two three four five six",
        "      seven",
    ]
