"""A zygote for the session, and candidate processes that are ended with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kernelgym.sandbox.zygote_client import ZygoteClient

if TYPE_CHECKING:
    from candidate_driver import Driver


@pytest.fixture(scope="session")
def zygote() -> Iterator[ZygoteClient]:
    client = ZygoteClient()
    yield client
    client.close()


@pytest.fixture
def start(zygote: ZygoteClient) -> Iterator[Callable[..., Driver]]:
    """Start processes; ``start(source)`` also sets up and loads a candidate."""
    from candidate_driver import Driver  # imports torch, which most tests here do not need

    drivers: list[Driver] = []

    def begin(source: str | None = None, *, setup: dict[str, Any] | None = None, **options: Any):
        driver = Driver(zygote, **options)
        drivers.append(driver)
        if source is not None:
            if options.get("role", "candidate") == "candidate":
                driver.setup(**(setup or {}))
            driver.load(source)
        return driver

    yield begin
    for driver in drivers:
        driver.end()
