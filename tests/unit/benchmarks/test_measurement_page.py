"""The results part of the measurement page comes from the results, and from nowhere else."""

import json

import pytest

import measurement_page as page

CIRCUMSTANCES = {
    "date": "2026-12-01", "commit": "0123456789", "dry_run": False,
    "machine": {"cores": 16, "processor": "X"},
    "gpu_before_and_after_each_section": [
        {"name": "H200", "driver": "580", "sm_clock_mhz": 1980}
    ],
    "versions": {"python": "3.12", "torch": "2.11", "triton": "3.6"},
}  # fmt: skip


@pytest.fixture
def results(tmp_path):
    """Results as the summaries write them, from made rows."""
    from test_gpu_benchmark_rows import row

    import gpu_aa_summary
    import gpu_throughput_summary
    import gpu_truth_summary

    rows = [
        row(1.0), row(1.2, candidate="c", lane=0, ended_s=2.0),
        row(1.2, candidate="c", lane=0, ended_s=3.0),
    ]  # fmt: skip
    facts = {"trick": "", "phase": "quiet", "number": 0, "repeat": 0}
    tricked = row(1.2, **(facts | {"trick": "thread", "phase": "gpu_spinner"}))
    rows = [r | facts for r in rows] + [tricked]
    for name in (
        *gpu_throughput_summary.SECTIONS, "problems", "beside", "coverage", "tricks", "spinner",
        "repeats", "copy",
    ):  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name, module in (
        ("gpu_throughput", gpu_throughput_summary), ("gpu_aa", gpu_aa_summary),
        ("gpu_truth", gpu_truth_summary),
    ):  # fmt: skip
        body = CIRCUMSTANCES | module.summarise(tmp_path)
        (tmp_path / f"{name}.json").write_text(json.dumps(body))
    return tmp_path


def test_every_part_is_there_and_tables_are_whole(results):
    text = page.text(results)
    for words in ("small_shared", "Idle machine", "call, ms", "thread", "gpu_spinner", "Repeats"):
        assert words in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")
    assert "100.0%" in text
    assert "H200 (driver 580, 1980 MHz)" in text
    assert "not measured yet" not in text


def test_missing_results_are_named(tmp_path):
    assert page.text(tmp_path).count("not measured yet") == 3


def test_a_dry_run_is_no_result(tmp_path):
    (tmp_path / "gpu_aa.json").write_text(json.dumps({"dry_run": True, "results": {}}))
    with pytest.raises(SystemExit, match="dry run"):
        page.text(tmp_path)


def test_only_what_stands_between_the_markers_changes():
    once = page.replaced("# Title\n\nWords.\n", "## Results\n\none")
    assert once.startswith("# Title\n\nWords.\n\n")
    again = page.replaced(once + "\nMore.\n", "## Results\n\ntwo")
    assert "one" not in again.partition("Words.")[2]
    assert again.endswith("\nMore.\n")
    assert page.replaced(again, "## Results\n\ntwo") == again


def test_the_page_is_what_the_results_say():
    expected = page.replaced(page.PAGE.read_text(), page.text(page.HERE / "results"))
    assert page.PAGE.read_text() == expected, "python benchmarks/measurement_page.py"
