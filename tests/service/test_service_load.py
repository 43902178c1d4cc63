"""Small versions of what `benchmarks/service_load.py` measures: the counts, not the rates.

Not here: a broker killed with a full queue (test_client.py, test_faults.py kill it all the time).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import service_load


def test_ten_times_too_much_is_refused_and_nothing_else() -> None:
    found = service_load.overload(0.025)
    assert found["limit"] == 100
    assert found["batches_of_100_by_status"] == {"202": 1, "429": 9}


def test_small_client_ends_while_the_large_one_still_waits() -> None:
    found = service_load.fairness(0.06)
    # 50 beside 300: in turn, so 100 at most, and what workers held and took meanwhile.
    assert 50 <= found["done_when_small_ended"] < 250


def test_idle_workers_leave_the_broker_alone() -> None:
    found = service_load.idle(0.1)
    assert 0 < found["calls_per_s_and_worker"] < 1
