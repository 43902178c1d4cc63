"""A verdict in words for the next prompt: deterministic, and within a budget of tokens.

What is said first survives longest when the budget is small: the outcome; then what to act on (the
error and its line, where values differ, the rule that was broken, the speedup); then kernels, what
still runs in torch, and hints. Text that comes from the candidate is quoted by
`drkernel.prompts.quoting`.

Not said: wall times, seeds, hashes, raw samples, or anything else that differs between two
evaluations without a difference in the candidate. What to do next is `drkernel.prompts.writing`'s.
"""

from __future__ import annotations

from collections.abc import Callable

from drkernel.prompts.budget import Count, Section, estimate_tokens, fit
from drkernel.prompts.hints import hints
from drkernel.prompts.quoting import fenced, harmless
from drkernel.prompts.rules import change_for, rule_of
from drkernel.types import Extraction
from kernelgym.schema import EvalResult, Failure, KernelRecord, Outcome, Trial

DEFAULT_BUDGET_TOKENS = 1024
_MESSAGE_CHARACTERS = 1_500
_TRACEBACK_LINES = 12
_LISTED_KERNELS = 8
_LISTED_OPERATORS = 8

_HEADLINES = {
    Outcome.MISMATCH: "Wrong: the outputs are not those of the reference.",
    Outcome.COMPILE_ERROR: "The code does not compile.",
    Outcome.RUNTIME_ERROR: "The code raised an exception.",
    Outcome.TIMEOUT: "The code did not finish in time.",
    Outcome.OUT_OF_MEMORY: "The code ran out of memory.",
    Outcome.CRASH: "The process that ran the code died.",
    Outcome.HACK: "Rejected: the answer breaks a rule, so it counts as wrong.",
}


def feedback(
    result: EvalResult | None,
    extraction: Extraction,
    *,
    budget_tokens: int = DEFAULT_BUDGET_TOKENS,
    count: Count = estimate_tokens,
) -> str:
    """What a model is told about its answer.

    Args:
        result: the verdict; None when nothing was judged.
        extraction: what was found in the answer.
        budget_tokens: the text has at most so many tokens, by ``count``.
        count: tokens of a text; the default estimates from above.
    """
    return fit(_sections(result, extraction), budget_tokens, count)


def _sections(result: EvalResult | None, extraction: Extraction) -> list[Section]:
    if result is None or result.outcome is Outcome.INFRASTRUCTURE:
        return [Section(_not_judged(extraction), 0, "head")]
    if result.outcome is Outcome.CORRECT:
        return _correct(result)
    return _failed(result)


def _not_judged(extraction: Extraction) -> str:
    if extraction.code is None or extraction.how == "unparsable":
        words = "No code to judge" if extraction.how in ("none", "truncated") else "Cannot be run"
        return f"{words}: {extraction.note or 'the answer has no complete code block'}."
    return "The evaluation service failed; nothing is known about this answer."


def _failed(result: EvalResult) -> list[Section]:
    failure = result.failure
    assert failure is not None  # the schema ties every failed outcome to a failure
    sections = [Section(_HEADLINES[result.outcome], 0, "head")]
    if result.outcome is Outcome.HACK:
        sections += _broken_rules(result)
    elif result.outcome is Outcome.MISMATCH:
        sections += _wrong(result, failure)
    else:
        sections.append(Section(_message(failure), 1, "head"))
    if failure.excerpt and result.outcome is not Outcome.HACK:
        where = f"Line {failure.line} of your code:" if failure.line else "In your code:"
        sections.append(Section(f"{where}\n{fenced(failure.excerpt)}", 2))
    if failure.traceback:
        trace = _last_lines(failure.traceback, _TRACEBACK_LINES)
        sections.append(Section(f"Traceback:\n{fenced(trace)}", 3))
    return [*sections, *_remarks(result)]


def _message(failure: Failure) -> str:
    kind = failure.type.rpartition(".")[2]
    message = harmless(failure.message).strip()[:_MESSAGE_CHARACTERS]
    message = f"{kind}: {message}" if kind and not message.startswith(kind) else message
    if "\n" in message:
        return f"Stage {failure.stage}:\n{fenced(message)}"
    return f"Stage {failure.stage}: {message}"


def _broken_rules(result: EvalResult) -> list[Section]:
    sections = []
    for finding in result.findings:
        if finding.severity == "hack":
            words = f"Rule: {rule_of(finding.id)}\nSeen: {harmless(finding.message).strip()}"
            if finding.line:
                words += f"\nLine {finding.line}: `{harmless(finding.excerpt).strip()}`"
            sections.append(Section(words, 1, "head"))
    return sections


def _last_lines(text: str, lines: int) -> str:
    kept = text.strip("\n").split("\n")
    return "\n".join(kept if len(kept) <= lines else ["...", *kept[-lines:]])


def _wrong(result: EvalResult, failure: Failure) -> list[Section]:
    """Trials by mode; the message itself where no trial on record is the one that decided."""
    change = change_for(failure.code)
    decided = any(not trial.passed and trial.status == failure.code for trial in result.trials)
    return [
        Section(_mismatch(result) if decided else _message(failure), 1, "head"),
        Section(f"What to change: {change}" if change else "", 1, "head"),
    ]


def _mismatch(result: EvalResult) -> str:
    """By mode: how many trials failed, and how far and where the worst of them is off."""
    lines = []
    for mode in ("eval", "train"):
        trials = [trial for trial in result.trials if trial.mode == mode]
        failed = [trial for trial in trials if not trial.passed]
        if not trials:
            continue
        if not failed:
            lines.append(f"- {mode} mode: all {len(trials)} inputs match.")
            continue
        worst = max(failed, key=lambda trial: trial.worst_ratio or 0.0)
        lines.append(f"- {mode} mode: {len(failed)} of {len(trials)} inputs differ. {_far(worst)}")
    return "\n".join(lines)


def _far(trial: Trial) -> str:
    words = [harmless(trial.detail).strip().rstrip(".") + "."] if trial.detail else []
    if trial.max_abs_error is not None and trial.max_rel_error is not None:
        words.append(
            f"Largest error {trial.max_abs_error:.3g} absolute, "
            f"{trial.max_rel_error:.3g} of the output's rms."
        )
    if trial.error_quantiles is not None:
        low, mid, high = (f"{value:.2g}" for value in trial.error_quantiles)
        words.append(f"Error / allowed error at 50, 90, 99% of the elements: {low}, {mid}, {high}.")
    return " ".join(words)


def _correct(result: EvalResult) -> list[Section]:
    checks = len(result.trials)
    kernels = _kernel_table(result)
    return [
        Section(f"Correct: all {checks} checks on fresh inputs match the reference.", 0, "head"),
        Section(_speed(result), 1, "head"),
        Section(_coverage(result), 1, "head"),
        Section(kernels, 3, "head"),
        Section(_in_torch(result), 2, "head"),
        *_remarks(result),
        Section(hints(result), 4, "head"),
    ]


def _speed(result: EvalResult) -> str:
    if result.speedup is None:
        reason = result.not_measured.get("speedup", "unknown reason")
        return f"Speed was not measured ({harmless(reason)})."
    text = f"Speedup {result.speedup:.2f}x"
    if result.speedup_interval:
        low, high = result.speedup_interval
        text += f" (95% interval {low:.2f} to {high:.2f})"
    if result.reference_ms is not None and result.kernel_ms is not None:
        text += f": the reference takes {_ms(result.reference_ms)}, yours {_ms(result.kernel_ms)}"
    baseline = {timing.baseline for timing in result.timings}
    text += " (reference under torch.compile)" if "torch_compile" in baseline else ""
    return text + "."


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value >= 0.1 else f"{1000 * value:.3g} us"


def _coverage(result: EvalResult) -> str:
    if result.profile is not None and result.profile.sentence:
        return harmless(result.profile.sentence) + "."
    if result.coverage is not None:
        return f"Own kernels take {100 * result.coverage:.1f}% of the device time."
    return ""


def _kernel_table(result: EvalResult) -> str:
    kernels = _of_record(result)
    timed = [kernel for kernel in kernels if kernel.time_us is not None]
    if not timed:
        return ""
    rows = [f"- {_kernel_line(kernel)}" for kernel in timed[:_LISTED_KERNELS]]
    if len(timed) > _LISTED_KERNELS:
        rest = sum(kernel.share or 0.0 for kernel in timed[_LISTED_KERNELS:])
        rows.append(f"- {len(timed) - _LISTED_KERNELS} more: {100 * rest:.1f}%")
    return "Kernels of one call, longest first:\n" + "\n".join(rows)


def _of_record(result: EvalResult) -> tuple[KernelRecord, ...]:
    """The kernels of one mode: where both were profiled, the first mode listed."""
    kernels = result.profile.kernels if result.profile else ()
    return tuple(kernel for kernel in kernels if kernel.mode == kernels[0].mode)


def _kernel_line(kernel: KernelRecord) -> str:
    name = harmless(kernel.name)[:80]
    parts = [f"{100 * (kernel.share or 0.0):.1f}%", f"{kernel.time_us:.1f} us"]
    parts.append(f"{kernel.calls} launches" if kernel.calls != 1 else "1 launch")
    facts: list[tuple[str, object, Callable[[object], str]]] = [
        ("grid", kernel.grid, _dims),
        ("block", kernel.block, _dims),
        ("registers", kernel.registers, str),
        ("shared bytes", kernel.shared_bytes or None, str),
        ("spilled bytes", kernel.spill_bytes or None, str),
    ]
    parts += [f"{label} {show(value)}" for label, value, show in facts if value is not None]
    return f"`{name}` ({'yours' if kernel.own else 'not yours'}): {', '.join(parts)}"


def _dims(value: object) -> str:
    assert isinstance(value, tuple)
    return "x".join(str(size) for size in value)


def _in_torch(result: EvalResult) -> str:
    """Kernels that are not the candidate's, or, without a profile, operators that torch ran."""
    foreign = [k for k in _of_record(result) if not k.own and k.time_us is not None]
    if foreign:
        share = 100 * sum(kernel.share or 0.0 for kernel in foreign)
        names = ", ".join(f"`{harmless(kernel.name)[:60]}`" for kernel in foreign[:5])
        return f"Still run by torch and its libraries: {share:.1f}% of the device time, {names}."
    if result.profile is None or result.coverage is not None:
        return ""
    seen = [
        f"{name.removeprefix('aten.')} x{times}"
        for name, times in sorted(result.profile.operators.items(), key=lambda item: item[0])
        if not name.startswith(_ALLOCATING)
    ]
    if not seen:
        return ""
    more = f" and {len(seen) - _LISTED_OPERATORS} more" if len(seen) > _LISTED_OPERATORS else ""
    listed = harmless(", ".join(seen[:_LISTED_OPERATORS]))
    return f"Operators of torch in one call: {listed}{more}."


_ALLOCATING = ("aten.empty", "aten.new_empty", "aten.view", "aten.t", "aten.as_strided")


def _remarks(result: EvalResult) -> list[Section]:
    """Findings that decide nothing but are worth acting on."""
    sections = []
    for finding in result.findings:
        if finding.severity == "warning":
            where = f" (line {finding.line})" if finding.line else ""
            text = f"Note: {harmless(finding.message).strip()}{where}."
            sections.append(Section(text, 2, "head"))
    return sections
