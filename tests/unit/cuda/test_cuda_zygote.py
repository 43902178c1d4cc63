"""The zygote's GPU warm-up: against a stand-in for Triton's driver module."""

import os
import sys
from types import SimpleNamespace

import pytest

from kernelgym.cuda import zygote_warmup


@pytest.fixture
def nvidia():
    built = []

    def build(src, name, library_dirs=None, include_dirs=None, libraries=None):
        built.append((src, name))
        return SimpleNamespace(source=src)

    return SimpleNamespace(
        built=built,
        compile_module_from_src=build,
        make_launcher=lambda constants, signature, meta: ",".join(signature.values()),
        library_dirs=lambda: ["lib"],
        include_dirs=["include"],
        libraries=["cuda"],
        CudaDriver=lambda: "a driver",
    )


def test_launchers_are_built_once_and_recalled_by_source(nvidia):
    zygote_warmup.remember_launchers(nvidia)
    assert len(nvidia.built) == len(zygote_warmup.SHAPES)
    known = nvidia.compile_module_from_src("*fp32,*fp32,i32,constexpr", "__triton_launcher")
    assert known.source == "*fp32,*fp32,i32,constexpr"
    assert len(nvidia.built) == len(zygote_warmup.SHAPES)
    nvidia.compile_module_from_src("*fp32,i64", name="__triton_launcher", libraries=[])
    nvidia.compile_module_from_src("*fp32,*fp32,i32,constexpr", "cuda_utils")
    assert len(nvidia.built) == len(zygote_warmup.SHAPES) + 2


def test_warming_up_leaves_the_environment_alone(nvidia, monkeypatch):
    active = []
    runtime = SimpleNamespace(driver=SimpleNamespace(set_active=active.append))
    monkeypatch.setitem(sys.modules, "triton.backends.nvidia.driver", nvidia)
    monkeypatch.setitem(sys.modules, "triton.runtime.driver", runtime)
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    zygote_warmup.warm_up()
    assert active == ["a driver"]
    assert "TRITON_CACHE_DIR" not in os.environ
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    del nvidia.make_launcher  # Triton 3.9
    nvidia.built.clear()
    zygote_warmup.warm_up()
    assert os.environ["TRITON_CACHE_DIR"] == "/mine"
    assert not nvidia.built


def test_it_is_asked_for_by_a_variable(monkeypatch):
    monkeypatch.delenv(zygote_warmup.VARIABLE, raising=False)
    assert not zygote_warmup.wanted()
    monkeypatch.setenv(zygote_warmup.VARIABLE, "1")
    assert zygote_warmup.wanted()


def test_this_tritons_driver_has_the_names_we_use():
    nvidia = pytest.importorskip("triton.backends.nvidia.driver")
    assert hasattr(nvidia, "CudaDriver")
    assert zygote_warmup.builds_launchers(nvidia) == hasattr(nvidia, "make_launcher")
