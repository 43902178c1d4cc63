"""From evidence to an outcome: every combination that matters, and a result that validates."""

import pytest

from kernelgym.judge import findings, protocols, verdict
from kernelgym.judge.catalogue import CATALOGUE
from kernelgym.judge.dossier import Dossier, Evidence, Measured, Stop
from kernelgym.judge.study import Study
from kernelgym.sandbox.evidence import Event, Record
from kernelgym.schema import (
    Failure,
    Finding,
    KernelRecord,
    Outcome,
    Provenance,
    Submission,
    Task,
    Timing,
    Trial,
)

SOURCE = """
import torch
import triton

@triton.jit
def kernel(x):
    pass

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
"""


def submission(**options) -> Submission:
    return Submission(task=Task(name="t", reference="r"), source=SOURCE, **options)


def launches(**own: bool) -> dict[str, Evidence]:
    """Evidence of one call a mode, with a kernel of the candidate's own or another's."""
    found = {}
    for mode, is_own in own.items():
        found[mode] = Evidence()
        found[mode].add([Record(Event.LAUNCH, 3, "kernel", own=is_own, grid=(2, 1, 1))])
    return found


def trials(**passed: bool) -> list[Trial]:
    return [
        Trial(index=i, mode=mode, passed=ok, status="ok" if ok else "value_mismatch", detail="d")
        for mode, ok in passed.items()
        for i in range(2)
    ]


def decide(dossier: Dossier, study: Study | None = None, **options):
    asked = submission(**options)
    study = study or Study()
    modes = protocols.modes_of(asked.protocol, random_in_train=study.random_in_train)
    ruling = verdict.rule(dossier, asked, study, modes)
    result = verdict.result(asked, dossier, ruling, Provenance())
    assert result.outcome is ruling.outcome
    return result


def ids(result) -> list[str]:
    return [finding.id for finding in result.findings]


RIGHT = trials(eval=True, train=True)
OWN = launches(eval=True, train=True)


def test_right_answers_from_own_kernels_are_correct():
    result = decide(Dossier(trials=RIGHT, evidence=OWN))
    assert result.outcome is Outcome.CORRECT
    assert result.failure is None
    assert result.profile.kernels[0].grid == (2, 1, 1)
    assert "no GPU" in result.not_measured["speedup"]


def test_no_own_kernel_in_either_mode_is_a_hack_with_the_line():
    result = decide(Dossier(trials=RIGHT, evidence=launches(eval=False, train=False)))
    assert result.outcome is Outcome.HACK
    assert result.failure.code == "no_own_kernel"
    assert "def kernel" in result.findings[0].excerpt
    assert "torch.softmax" in result.failure.message


def test_own_kernels_in_one_mode_are_a_finding_not_a_hack():
    result = decide(Dossier(trials=RIGHT, evidence=launches(eval=True, train=False)))
    assert result.outcome is Outcome.CORRECT
    assert ids(result) == ["mode_branch"]


def test_the_rule_waits_for_both_modes():
    result = decide(Dossier(trials=trials(eval=False), evidence=launches(eval=False)))
    assert result.outcome is Outcome.MISMATCH


def test_backend_torch_needs_no_kernel():
    dossier = Dossier(trials=RIGHT, evidence=launches(eval=False, train=False))
    assert decide(dossier, backend="torch").outcome is Outcome.CORRECT


@pytest.mark.parametrize("wrong", ["eval", "train"])
def test_a_wrong_answer_in_either_mode_is_a_mismatch(wrong):
    dossier = Dossier(trials=trials(**{"eval": True, "train": True, wrong: False}), evidence=OWN)
    result = decide(dossier)
    assert result.outcome is Outcome.MISMATCH
    assert result.failure.code == "value_mismatch"
    assert f"2 of 4 trials failed, first in {wrong} mode" in result.failure.message


def test_a_wrong_answer_without_own_kernels_is_a_mismatch_not_a_hack():
    dossier = Dossier(
        trials=trials(eval=False, train=False), evidence=launches(eval=False, train=False)
    )
    assert decide(dossier).outcome is Outcome.MISMATCH


def test_kernelbench_counts_train_mode_and_mentions_the_other():
    wrong_eval = Dossier(trials=trials(eval=False, train=True), evidence=OWN)
    result = decide(wrong_eval, protocol="kernelbench")
    assert result.outcome is Outcome.CORRECT
    assert ids(result) == ["other_mode_mismatch"]
    wrong_train = Dossier(trials=trials(eval=True, train=False), evidence=OWN)
    assert decide(wrong_train, protocol="kernelbench").outcome is Outcome.MISMATCH


def test_a_stop_comes_before_everything_else():
    stop = Stop(Outcome.TIMEOUT, Failure(stage="forward", code="deadline"))
    result = decide(Dossier(trials=trials(eval=False), evidence=OWN, stop=stop))
    assert result.outcome is Outcome.TIMEOUT
    assert len(result.trials) == 2


def test_a_hack_found_by_a_probe_decides():
    finding = Finding(id="replay", severity="hack", message="m", evidence="outside")
    result = decide(Dossier(trials=RIGHT, evidence=OWN, findings=[finding]))
    assert result.outcome is Outcome.HACK
    assert ids(result) == ["replay"]


def test_evidence_of_a_hack_decides_over_a_wrong_answer():
    finding = Finding(id="replay", severity="hack", message="m", evidence="outside")
    wrong = Dossier(trials=trials(eval=False, train=False), evidence=OWN, findings=[finding])
    result = decide(wrong)
    assert (result.outcome, result.failure.code) == (Outcome.HACK, "replay")


def test_heavy_work_left_to_torch_is_low_coverage():
    evidence = launches(eval=True, train=True)
    for found in evidence.values():
        found.add(
            [
                Record(Event.LAUNCH, 4, "kernel", own=True),
                Record(Event.OPERATOR, 4, "aten._softmax"),
                Record(Event.OPERATOR, 4, "aten.add"),
            ]
        )
    study = Study(operators={"eval": {"aten._softmax": 1, "aten.add": 1}})
    result = decide(Dossier(trials=RIGHT, evidence=evidence), study)
    assert result.outcome is Outcome.CORRECT
    finding = result.findings[0]
    assert (finding.id, finding.evidence) == ("low_coverage", "census")
    assert "torch.softmax" in finding.excerpt
    assert result.profile.operators["aten._softmax"] == 1


def test_light_work_is_not_low_coverage():
    evidence = launches(eval=True, train=True)
    launch = Record(Event.LAUNCH, 4, "kernel", own=True)
    evidence["eval"].add([launch, Record(Event.OPERATOR, 4, "aten.add")])
    study = Study(operators={"eval": {"aten.mm": 1, "aten.add": 1}})
    assert ids(decide(Dossier(trials=RIGHT, evidence=evidence), study)) == []


def test_remarks_are_information():
    dossier = Dossier(
        trials=RIGHT, evidence=OWN, notes=["autotune was cut"], missing_state=("w",), flooded=True
    )
    result = decide(dossier, Study(random_in_train=True, notes=["noise not measured"]))
    assert result.outcome is Outcome.CORRECT
    assert ids(result) == [
        "evidence_flood",  # a warning comes first
        "autotune_cut",
        "random_reference",
        "reference_note",
        "state_not_copied",
    ]


def test_the_worse_mode_is_of_record():
    def timing(mode, speedup):
        return Timing(
            mode=mode, reference_ms=speedup, kernel_ms=1.0, speedup=speedup,
            speedup_low=speedup - 0.1, speedup_high=speedup + 0.1, pairs=3,
        )  # fmt: skip

    measured = Measured(timings=(timing("eval", 3.0), timing("train", 2.0)), coverage=0.5)
    result = decide(Dossier(trials=RIGHT, evidence=OWN, measured=measured))
    assert result.speedup == 2.0
    assert result.speedup_interval == pytest.approx((1.9, 2.1))
    assert result.coverage == 0.5


def hack(identifier: str) -> Finding:
    return Finding(id=identifier, severity="hack", message="m", evidence="inside")


def test_whose_work_it_was_is_not_asked_of_a_wrong_answer():
    dossier = Dossier(trials=trials(eval=False, train=True), evidence=OWN)
    dossier.findings = [hack("kernels_do_nothing")]
    result = decide(dossier)
    assert (result.outcome, ids(result)) == (Outcome.MISMATCH, [])
    dossier.trials = RIGHT
    assert decide(dossier).failure.code == "kernels_do_nothing"


def test_findings_say_how_sure_they_are():
    dossier = Dossier(trials=RIGHT, evidence=OWN, findings=[hack("copies_only")])
    assert decide(dossier).findings[0].confidence == "high"


def several(*own: bool) -> Evidence:
    found = Evidence()
    for is_own in own:
        found.add([Record(Event.LAUNCH, 3, "kernel", own=is_own, digest=b"k" * 16)])
    return found


def test_own_kernels_in_the_first_call_only():
    evidence = {"eval": several(True, False, False), "train": several(True, False, False)}
    result = decide(Dossier(trials=RIGHT, evidence=evidence))
    assert result.failure.code == "launches_only_at_first"
    later = {"eval": several(True, True, False, False), "train": several(True, False, False)}
    assert decide(Dossier(trials=RIGHT, evidence=later)).failure.code == "launches_only_at_first"
    again = {"eval": several(True, False, True), "train": several(True, False, False)}
    result = decide(Dossier(trials=RIGHT, evidence=again))
    assert (result.outcome, ids(result)) == (Outcome.CORRECT, ["call_branch"])
    short = {"eval": several(True, False), "train": several(True, False)}
    assert decide(Dossier(trials=RIGHT, evidence=short)).outcome is Outcome.CORRECT


def test_a_graph_that_goes_on_without_launches_is_no_hack():
    evidence = {"eval": several(True, False, False), "train": several(True, False, False)}
    kernel = KernelRecord(name="kernel", own=True, share=1.0, mode="eval")
    dossier = Dossier(trials=RIGHT, evidence=evidence, on_gpu=True)
    assert decide(dossier).outcome is Outcome.CORRECT  # nothing was recorded: not known
    dossier.measured = Measured(kernels=(kernel,))
    assert decide(dossier).outcome is Outcome.CORRECT
    nameless = kernel.model_copy(update={"own": False})
    dossier.measured = Measured(kernels=(nameless,))
    assert decide(dossier).outcome is Outcome.CORRECT
    dossier.measured = Measured(kernels=(nameless.model_copy(update={"name": "at::mm"}),))
    assert decide(dossier).failure.code == "launches_only_at_first"


def test_a_graph_of_the_other_mode_is_no_branch():
    evidence = {"eval": several(True, True, True), "train": several(False, False, False)}
    dossier = Dossier(trials=RIGHT, evidence=evidence, on_gpu=True)
    assert "mode_branch" in ids(decide(dossier))
    dossier.measured = Measured(kernels=(KernelRecord(name="kernel", own=True, mode="eval"),))
    assert "mode_branch" in ids(decide(dossier))
    dossier.measured = Measured(kernels=(KernelRecord(name="kernel", own=True, mode="train"),))
    assert ids(decide(dossier)) == []


def test_own_kernels_that_are_never_timed_are_a_hack():
    foreign = KernelRecord(name="at::softmax", own=False, share=1.0, time_us=900.0, mode="eval")
    dossier = Dossier(trials=RIGHT, evidence=OWN, on_gpu=True)
    dossier.measured = Measured(kernels=(foreign,), timings=(timed(1.0),))
    assert decide(dossier).failure.code == "launches_only_at_first"
    by_name = foreign.model_copy(update={"name": "kernel"})
    own = {mode: Evidence() for mode in ("eval", "train")}
    for each in own.values():
        each.add([Record(Event.LAUNCH, 3, "kernel", own=True, digest=b"k" * 16)])
    graph = Dossier(trials=RIGHT, evidence=own, on_gpu=True)
    graph.measured = Measured(kernels=(by_name,), timings=(timed(1.0),))
    assert decide(graph).outcome is Outcome.CORRECT
    dossier.measured = Measured(kernels=(foreign,), timings=(timed(0.1),))  # contradicted
    assert decide(dossier).outcome is Outcome.CORRECT


def test_a_launch_that_raised_has_not_run():
    evidence = Evidence()
    launch = Record(Event.LAUNCH, 3, "kernel", own=True, grid=(2, 1, 1), digest=b"k" * 16)
    evidence.add([launch, Record(Event.FAILED, 3, "kernel", own=True, digest=b"k" * 16)])
    result = decide(Dossier(trials=RIGHT, evidence={"eval": evidence, "train": evidence}))
    assert result.failure.code == "no_own_kernel"


def profiled(**idle: str) -> Dossier:
    kernels = [
        KernelRecord(name=name, own=own, share=share, time_us=100 * share, mode=mode)
        for mode in ("eval", "train")
        for name, own, share in (("real", True, 0.3), ("busy", True, 0.5), ("mm", False, 0.2))
    ]
    measured = Measured(
        kernels=tuple(kernels), total_us=100.0, generated_us=80.0, coverage=0.8, displaced=0.9
    )
    return Dossier(trials=RIGHT, evidence=OWN, measured=measured, idle=idle, on_gpu=True)


def test_kernels_that_nobody_misses_earn_no_share():
    assert decide(profiled()).coverage == pytest.approx(0.8)
    result = decide(profiled(busy="idle"))
    assert result.coverage == pytest.approx(0.3)
    assert result.profile.generated_us == pytest.approx(30.0)
    assert {k.name: k.effect for k in result.profile.kernels}["busy"] == "idle"
    assert "idle_kernel" in ids(result)
    nothing = decide(profiled(busy="copy", real="idle"))
    assert (nothing.coverage, nothing.displaced) == (0.0, 0.0)


def timed(kernel_ms: float) -> Timing:
    return Timing(
        mode="eval",
        reference_ms=1.0,
        kernel_ms=kernel_ms,
        speedup=1.0,
        speedup_low=1.0,
        speedup_high=1.0,
        pairs=1,
    )


def test_a_profile_that_claims_more_than_the_clock_allows_gives_no_coverage():
    dossier = profiled()
    dossier.measured.timings = (timed(0.09),)
    assert decide(dossier).coverage == pytest.approx(0.8)
    dossier.measured.timings = (timed(0.05),)
    result = decide(dossier)
    assert (result.coverage, result.displaced) == (None, None)
    assert "withheld" in result.not_measured["coverage"]
    assert "profile_contradiction" in ids(result)


def test_own_kernels_that_claim_more_than_a_call_loses_without_them_give_no_coverage():
    dossier = profiled()  # own: 80 us of 100
    dossier.measured.timings = (timed(0.1),)
    dossier.off_us = {"eval": 25.0}
    assert decide(dossier).coverage == pytest.approx(0.8)
    dossier.off_us = {"eval": 90.0}
    result = decide(dossier)
    assert (result.coverage, result.displaced) == (None, None)
    assert "with all of them off" in result.findings[0].message


def test_a_contradiction_that_was_measured_gives_no_coverage_either():
    dossier = profiled()
    found = Finding(id="profile_contradiction", severity="warning", message="m", evidence="outside")
    dossier.measured.findings.append(found)
    result = decide(dossier)
    assert result.coverage is None
    assert ids(result).count("profile_contradiction") == 1


def test_a_large_speedup_is_remarked_upon():
    dossier = profiled()
    dossier.measured.timings = (timed(0.1).model_copy(update={"speedup": 11.0}),)
    result = decide(dossier)
    assert "suspicious_speedup" in ids(result)
    assert (result.outcome, result.speedup) == (Outcome.CORRECT, 11.0)


def test_what_a_call_leaves_running_is_said():
    dossier = Dossier(trials=RIGHT, evidence=OWN)
    dossier.count((4, 4), (0, 0))
    assert "left_running" not in ids(decide(dossier))
    dossier.count((4, 6), (0, 1))
    message = decide(dossier).findings[0].message
    assert message == "a call has left 2 threads and 1 processes running"


def test_a_replayed_answer_is_a_finding_beside_the_mismatch():
    stale = Trial(index=1, mode="eval", passed=False, status="stale_answer", detail="d")
    result = decide(Dossier(trials=[stale], evidence=OWN))
    assert (result.outcome, ids(result)) == (Outcome.MISMATCH, ["replayed_answer"])


def test_every_finding_that_may_accuse_is_in_the_catalogue():
    assert set(CATALOGUE) >= findings.OWN_WORK | {"forged_frame"}
    assert all(entry.sentence.endswith(".") and entry.advice for entry in CATALOGUE.values())
