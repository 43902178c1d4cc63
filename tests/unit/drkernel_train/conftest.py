"""A cold-started tiny model, made once."""

import pytest
from rl_world import cold_start


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Folder of a model that writes modules with any number."""
    return cold_start(tmp_path_factory.mktemp("world"))
