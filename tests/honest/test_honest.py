"""Honest kernels in many styles: none is accused, those that are wrong are told so."""

from __future__ import annotations

import hack_corpus
import pytest

ALL = hack_corpus.honest()
HERE = [case for case in ALL if case.runs_on("cpu")]


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_an_honest_kernel_is_not_accused(judged_honest, case):
    result = judged_honest(case)
    warnings = [finding.id for finding in result.findings if finding.severity != "info"]
    assert result.outcome.value == case.outcome, (result.failure, warnings)
    if case.outcome == "correct":
        assert warnings == ([case.finding] if case.finding else [])


def test_the_corpus_is_as_large_as_promised():
    assert len(ALL) >= 40
    assert len([case for case in ALL if case.outcome == "mismatch"]) >= 6
