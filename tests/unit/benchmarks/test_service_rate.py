"""How `benchmarks/service_rate.py` finds out how many evaluations fit into its time."""

from service_rate import that_fit


def test_count_follows_the_warm_up() -> None:
    assert that_fit(240, slots=8, warm_s=2.0, limit_s=None) == 240
    assert that_fit(240, slots=8, warm_s=2.0, limit_s=15.0) == 60
    assert that_fit(240, slots=8, warm_s=100.0, limit_s=15.0) == 16, "two rounds of all slots"
    assert that_fit(24, slots=8, warm_s=0.1, limit_s=15.0) == 24, "never more than asked for"
