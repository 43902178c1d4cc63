"""One broker and one server for all tests that do not break them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gym_under_test import ServerProcess, start_broker, start_stub_worker, stop

from kernelgym.broker.embedded import EmbeddedBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    server = start_broker(tmp_path_factory.mktemp("service-broker"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def server(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    process = ServerProcess(
        tmp_path_factory.mktemp("service-server"),
        broker.url,
        max_body_bytes=1 << 20,
        max_batch=100,
        max_retries=1,
        max_open_per_client=500,
    )
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="session")
def worker(server: ServerProcess) -> Iterator[str]:
    """A stub worker on the session's server; its name."""
    process = start_stub_worker(server, "stub-1", slots=4)
    yield "stub-1"
    stop(process)
