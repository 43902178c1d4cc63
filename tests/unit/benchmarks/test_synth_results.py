"""What is made of rows about synthetic tasks: kept rows, numbers, the page."""

import synth_full_size
import synth_page

ROWS = [
    {"task": "synth/1-0", "eager_ms": 0.02, "ok": True, "findings": [], "seconds": 1.0},
    {"task": "synth/1-1", "eager_ms": 0.5, "ok": False, "findings": ["below_noise"]},
    {"task": "synth/1-2", "eager_ms": 30.0, "ok": True, "findings": []},
    {"task": "synth/1-3", "fault": "the process died"},
]


def test_rows_of_an_earlier_run_count_but_not_a_line_that_was_cut_off(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert synth_full_size.read_rows(path) == {}
    path.write_text('{"task": "a", "ok": true}\n{"task": "b", "o')
    assert synth_full_size.read_rows(path) == {"a": {"task": "a", "ok": True}}


def test_numbers_and_page():
    body = synth_full_size.summary(ROWS, asked=5, device="H")
    assert (body["asked"], body["tasks"], body["ran"], body["trusted"]) == (5, 4, 3, 2)
    assert (body["between_0.05_and_20_ms"], body["below_1_ms"]) == (1, 2)
    assert body["findings"] == {"below_noise": 1}
    assert body["faults"] == ROWS[3:]
    head = {
        "date": "2026-01-01",
        "machine": {"processor": "P", "cores": 2},
        "versions": {"torch": "2"},
    }
    numbers = head | {
        "workers": 2,
        "load_average_1min": 0.5,
        "tasks": 1000,
        "candidates": 1200,
        "wall_seconds": 60.0,
        "processor_seconds": 100.0,
        "tasks_a_processor_second": 10.0,
        "heavy_share": 0.5,
        "with_kind": {"matmul": 500},
        "equal_graphs_share": 0.0,
        "operator_combinations": 900,
        "combinations_in_two_splits": 0,
        "by_split": {"train": 1000},
        "by_configurations": {"4": 1000},
        "source_lines": [20.0] * 9,
        "benchmark_files": 250,
        "refused": {"duplicate": 200},
    }
    text = synth_page.page(numbers, head | body)
    assert "| tasks, of candidates drawn | 1,000 of 1,200 |" in text
    assert (
        "| with a matrix product, convolution, attention or reduction | 50.0% (matmul 500) |"
        in text
    )
    assert "| `duplicate` | 200 |" in text
    assert "| below 1 ms | 2 |" in text
    assert "At full size" not in synth_page.page(numbers, None)
