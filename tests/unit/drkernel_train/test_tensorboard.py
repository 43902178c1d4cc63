"""TensorBoard on request: the numbers of each step, or an error that says what to install."""

import importlib.util

import pytest

from drkernel.tracking import Tracker
from kernelgym.errors import UsageError


def test_numbers_are_written_or_the_package_is_named(tmp_path):
    if importlib.util.find_spec("tensorboard") is None:
        with pytest.raises(UsageError, match="not installed") as refused:
            Tracker(tmp_path / "metrics.jsonl", tensorboard=tmp_path / "board")
        assert refused.value.hint == "pip install tensorboard"
        return
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracker = Tracker(tmp_path / "metrics.jsonl", tensorboard=tmp_path / "board")
    tracker.log(1, {"loss": 0.5, "name": "text", "nothing": None, "infinite": float("inf")})
    tracker.log(2, {"loss": 0.25})
    tracker.close()
    events = EventAccumulator(str(tmp_path / "board")).Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
