"""What the GPU benchmarks do with results: rows, rates, shares, verdicts on the clock."""

import asyncio
import json

import pytest

import gpu_aa
import gpu_aa_summary
import gpu_throughput_summary as throughput
import gpu_truth_summary as truth
from gpu_throughput_lanes import Job, Memory, Rows, claim_gib, describe, profiled, run_jobs
from gpu_throughput_tasks import DIRECTORY, FULL, HUGE, SMALL, unique
from kernelgym.schema import (
    EvalResult,
    KernelRecord,
    Outcome,
    Profile,
    Provenance,
    Submission,
    Task,
    Timing,
)

TASK = Task(name="small/softmax", reference="class Model: ...")


def result(speedup=1.0, **changes):
    """A result as a GPU gives it."""
    timing = Timing(
        mode="eval", reference_ms=0.05, kernel_ms=0.05 / speedup, speedup=speedup,
        speedup_low=speedup * 0.99, speedup_high=speedup * 1.01, pairs=16,
        reference_samples_ms=(0.05, 0.0501), kernel_samples_ms=(0.049, 0.0502), clock="events",
    )  # fmt: skip
    kernel = KernelRecord(name="softmax_kernel", own=True, time_us=30.0, share=1.0, mode="eval")
    fields = {
        "task": TASK.name, "outcome": Outcome.CORRECT, "correct": True, "speedup": speedup,
        "speedup_interval": (speedup * 0.99, speedup * 1.01), "reference_ms": 0.05,
        "kernel_ms": 0.05 / speedup, "coverage": 1.0, "timings": (timing,),
        "profile": Profile(kernels=(kernel,), total_us=30.0, generated_us=30.0, sentence="Custom"),
        "provenance": Provenance(
            stage_seconds={"start": 0.1, "measure": 0.2}, wall_seconds=0.31,
            gate_held_seconds=0.07,
        ),
    }  # fmt: skip
    return EvalResult(**(fields | changes))


def row(speedup=1.0, **facts):
    known = {"problem": "small/softmax", "candidate": "reference", "kind": "softmax", "segment": 0,
             "turn": 1, "lane": 0, "began_s": 0.0, "ended_s": 1.0}  # fmt: skip
    return known | describe(result(speedup), samples=True) | profiled(result(speedup)) | facts


class Host:
    """Answers at once, or after a while."""

    def __init__(self, seconds=0.0):
        self.seconds, self.fresh = seconds, []

    async def evaluate(self, submission, *, fresh):
        self.fresh.append(fresh)
        await asyncio.sleep(self.seconds)
        return result()


def jobs(count, turns=1):
    sent = Submission(task=TASK, source="x")
    return [Job(str(n), 0.1, [({"number": n}, sent)] * turns, fresh=True) for n in range(count)]


def run(host, rows, work, **how):
    async def main():
        loop = asyncio.get_running_loop()
        await run_jobs(host, work, rows, lanes=2, ends=loop.time() + 60.0, **how)

    asyncio.run(main())


def test_every_turn_becomes_a_row_and_a_cut_line_is_left_out(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"number": 99, "outcome": "correct"}\n{"number": 1, "outc')
    rows, host = Rows(path), Host()
    assert [r["number"] for r in rows.rows] == [99]
    run(host, rows, jobs(3, turns=2), limit_s=5.0, samples=True, profile=True)
    assert sorted(r["number"] for r in rows.rows[1:]) == [0, 0, 1, 1, 2, 2]
    assert host.fresh == [True] * 6
    last = rows.rows[-1]
    assert last["gate_held_seconds"] == 0.07
    assert last["samples_us"] == [[[50.0, 50.1], [49.0, 50.2]]]
    assert last["kernels"][0][:2] == ["softmax_kernel", True]


def test_an_evaluation_over_its_limit_is_a_row(tmp_path):
    rows = Rows(tmp_path / "b.jsonl")
    run(Host(seconds=30.0), rows, jobs(1), limit_s=0.05)
    assert [r["outcome"] for r in rows.rows] == ["over_limit"]


def test_memory_keeps_apart_what_does_not_fit_together():
    seen, most = [], 0

    async def one(memory, gib):
        nonlocal most
        async with memory.room(gib):
            seen.append(gib)
            most = max(most, sum(seen))
            await asyncio.sleep(0.01)
            seen.remove(gib)

    async def main():
        memory = Memory(10.0)
        await asyncio.gather(*(one(memory, gib) for gib in (6, 5, 4, 9, 10)))
        assert most == 10
        await one(memory, 50)  # more than there is: alone, but it runs

    asyncio.run(main())
    assert most == 50
    assert claim_gib(1.0) > 6.0


def test_a_large_job_is_not_passed_by_small_ones_for_ever():
    order = []

    async def one(memory, name, gib, rounds):
        for _ in range(rounds):
            async with memory.room(gib):
                order.append(name)
                await asyncio.sleep(0.005)

    async def main():
        memory = Memory(4.0)
        small = [one(memory, f"small {n}", 1, 20) for n in range(4)]
        await asyncio.gather(*small, one(memory, "large", 4, 1))

    asyncio.run(main())
    assert order.index("large") < 12


def test_sustained_counts_only_while_every_lane_is_busy():
    rows = [row(lane=lane, ended_s=float(end)) for lane, ends in
            ((0, (1, 2, 3, 4)), (1, (2, 4, 6, 8))) for end in ends]  # fmt: skip
    found = throughput.sustained(rows)
    # From 2 (the slower lane's first) to 4 (the faster lane's last): 3 and 4 of one, 4 of the
    # other.
    assert (found["evaluations"], found["seconds"], found["per_s"]) == (3, 2.0, 1.5)


def test_throughput_summary(tmp_path):
    rows = [row(1.0), row(1.03), *(row(1.5 + 0.01 * n, candidate="c", lane=1) for n in range(9))]
    for name in throughput.SECTIONS:
        text = "\n".join(json.dumps(r) for r in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    found = throughput.summarise(tmp_path)["results"]
    assert set(found) == set(throughput.SECTIONS)
    shared = found["mix_shared"]
    assert shared["aa"]["share_within"] == 0.5
    assert shared["gate"]["gate_held_seconds"]["p50"] == 0.07
    assert list(shared["waterfall_s"]) == ["measure", "start"]
    spread = shared["candidates"]["c"]
    assert spread["speedup"]["p50"] == 1.54
    assert spread["intervals_that_hold_the_median"] == 3  # 1.53, 1.54, 1.55: within 1% of 1.54


def test_aa_summary_lists_what_is_not_right(tmp_path):
    rows = [row(1.0, problem="a"), row(1.1, problem="b"), row(1.0, problem="c")]
    rows[2] |= {"outcome": "mismatch", "cause": "compare/value_mismatch: far", "speedup": None}
    for name in ("problems", "coverage"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps(r) for r in rows))
    found = gpu_aa_summary.summarise(tmp_path)["results"]
    assert found["problems"]["outcomes"] == {"correct": 2, "mismatch": 1}
    assert found["problems"]["not_correct"] == [["c", "mismatch", "compare/value_mismatch: far"]]
    assert found["problems"]["all"]["share_within"] == 0.5
    assert found["problems"]["by_call_ms"]["0.03-0.1"]["timed"] == 2
    assert found["coverage"]["a"]["interval_of_record_holds_1"] == 1.0
    assert found["coverage"]["b"]["interval_of_a_mode_holds_1"] == 0.0
    assert (tmp_path / gpu_aa_summary.SAMPLES).stat().st_size > 50


def test_problems_are_tried_again_only_after_faults_that_are_not_theirs():
    rows = [row(problem="a"), row(problem="b", outcome="infrastructure"),
            row(problem="c", outcome="over_limit"), row(problem="c", outcome="over_limit"),
            row(problem="d", outcome="mismatch")]  # fmt: skip
    assert gpu_aa.wanted("problems", ["a", "b", "c", "d", "e"], rows) == ["e", "b"]


@pytest.mark.parametrize(("speedup", "held"), [(1.04, True), (1.2, False)])
def test_a_trick_holds_only_within_5_percent_of_its_twin(tmp_path, speedup, held):
    rows = [row(1.0, trick=""), row(speedup, trick="patched_events")]
    rows.append(row(9.0, trick="caught", outcome="hack"))
    (tmp_path / "tricks.jsonl").write_text("\n".join(json.dumps(r) for r in rows))
    found = truth.summarise(tmp_path)["results"]["tricks"]["tricks"]
    assert found["patched_events"]["held"] is held
    assert found["caught"]["held"] is True


def test_spinners_are_compared_with_the_quiet_phases(tmp_path):
    rows = [
        row(value, phase=phase, number=number, candidate=candidate)
        for value, phase, number, candidate in (
            (1.0, "quiet", 0, "c"), (1.0, "quiet", 2, "c"), (0.9, "gpu_spinner", 1, "c"),
            (5.0, "gpu_spinner", 1, "gpu_spinner"),
        )
    ]  # fmt: skip
    (tmp_path / "spinner.jsonl").write_text("\n".join(json.dumps(r) for r in rows))
    found = truth.summarise(tmp_path)["results"]["spinner"]
    assert found["largest_shift"]["gpu_spinner"] == pytest.approx(0.1)
    assert found["outcomes"]["gpu_spinner: spinner"] == {"correct": 1}


def test_repeats_coverage_copy_and_clocks(tmp_path):
    rows = [row(speed * (1 + 0.001 * n), candidate=name, repeat=n)
            for n in range(4) for name, speed in (("slow", 1.0), ("fast", 2.0))]  # fmt: skip
    rows[-1]["speedup"] = 0.5  # once the order is another
    for name in ("repeats", "coverage", "copy"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps(r) for r in rows))
    (tmp_path / "copy.data.json").write_text(
        json.dumps({"bytes": 2e9, "candidate_bytes_per_s": 4e12})
    )
    shot = {"body": {"p50": 103.0}, "event": {"p50": 100.0}}
    (tmp_path / "clocks.data.json").write_text(json.dumps({
        "cupti": {"100 us": {"median_us": 103.0}}, "empty": {"body": {"p50": 3.0}},
        "spin 100 us": {"K=1": shot},
    }))  # fmt: skip
    found = truth.summarise(tmp_path)["results"]
    assert found["repeats"]["order"]["compared"] == 4
    assert found["repeats"]["order"]["swapped"] == 1
    assert found["coverage"]["cases"][0]["shares_sum"] == {"eval": 1.0}
    assert found["copy"]["judge_bytes_per_s"] > 0
    (line,) = found["clocks"]["table"]
    assert (line["marks_us"], line["marks_within_3_us_and_2_percent"]) == (100.0, True)
    assert line["cupti_within_2_percent"] is False


def test_sources_are_unique_and_every_candidate_is_there():
    for entry in (*FULL, *HUGE, *SMALL):
        source = (DIRECTORY / f"{entry.candidate}.py").read_text()
        one, two = unique(source, "t1"), unique(source, "t2")
        assert one != two
        assert "_kernel_t1" in one
        compile(one, entry.candidate, "exec")
        assert one.count("_kernel_t1") == source.count("_kernel")
