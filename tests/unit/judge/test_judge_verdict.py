"""From evidence to an outcome: every combination that matters, and a result that validates."""

import pytest

from kernelgym.judge import protocols, verdict
from kernelgym.judge.dossier import Dossier, Evidence, Measured, Stop
from kernelgym.judge.study import Study
from kernelgym.sandbox.evidence import Event, Record
from kernelgym.schema import (
    Failure,
    Finding,
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
            [Record(Event.OPERATOR, 4, "aten._softmax"), Record(Event.OPERATOR, 4, "aten.add")]
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
    evidence["eval"].add([Record(Event.OPERATOR, 4, "aten.add")])
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
