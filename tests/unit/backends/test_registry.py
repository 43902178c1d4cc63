"""Backends by name: the built-in ones, installed ones, and names that nobody has."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from kernelgym import backends
from kernelgym.backends.base import Backend
from kernelgym.errors import ServiceError, UsageError


class Toy(Backend):
    name = "toy"


TOY = Toy()
NOT_A_BACKEND = 3


@pytest.fixture
def installed(monkeypatch):
    """Pretend that packages with these entry points are installed."""

    def install(**entries: str) -> None:
        found = [
            EntryPoint(name, path, backends.ENTRY_POINT_GROUP) for name, path in entries.items()
        ]
        monkeypatch.setattr(backends, "entry_points", lambda group: found)
        backends._known.cache_clear()
        backends.get.cache_clear()

    yield install
    monkeypatch.undo()
    backends._known.cache_clear()
    backends.get.cache_clear()


def test_the_built_in_backends():
    assert {"torch", "triton"} <= set(backends.names())
    assert backends.get("triton").needs_own_kernel
    assert backends.get("triton").cross_compiles
    assert not backends.get("torch").needs_own_kernel
    for name in ("torch", "triton"):
        backend = backends.get(name)
        assert (backend.name, backend.devices) == (name, ("cpu", "cuda"))
        assert backend.summary


def test_an_unknown_name_is_a_usage_error_that_names_the_known_ones():
    with pytest.raises(UsageError, match=r"'tritn'; known: .*torch, triton.*Did you mean 'triton'"):
        backends.get("tritn")
    with pytest.raises(UsageError, match="unknown backend 'zzz'"):
        backends.get("zzz")


def test_an_installed_backend_is_found(installed):
    installed(toy=f"{__name__}:TOY")
    assert "toy" in backends.names()
    assert backends.get("toy") is TOY


def test_an_installed_backend_cannot_replace_a_built_in_one(installed):
    installed(torch=f"{__name__}:TOY")
    assert backends.get("torch").name == "torch"


def test_an_entry_point_that_is_no_backend_is_a_service_error(installed):
    installed(toy=f"{__name__}:NOT_A_BACKEND")
    with pytest.raises(ServiceError, match="not a kernelgym Backend"):
        backends.get("toy")


def test_the_registry_imports_no_torch():
    script = (
        "import sys\n"
        "from kernelgym import backends\n"
        "backends.names(); backends.get('triton'); backends.get('torch')\n"
        "assert not {'torch', 'triton', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
