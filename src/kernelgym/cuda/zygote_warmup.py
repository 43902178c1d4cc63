"""What a zygote for GPU evaluations does beyond `kernelgym.sandbox.warmup`, without touching the
GPU.

* imports cuda-bindings (it loads the driver's library, it does not initialise it);
* makes Triton's `CudaDriver` active by hand: probing would call cuInit; building its C module here
  saves 0.2-0.4 s in every child;
* Triton 3.6 builds a C launcher with gcc for each signature of a kernel: those of common signatures
  are built here once, and found again by their source text;
* assembles the kernels of `kernelgym.cuda.kernels`.

Called only in a zygote that was started for a GPU. It opens no device file and leaves one thread;
the zygote asserts both before every fork.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelgym.cuda import kernels
from kernelgym.cuda.driver import load_bindings

VARIABLE = "KERNELGYM_CUDA"
"""Set in the environment of such a zygote."""
LAUNCHER = "__triton_launcher"
SHAPES = ((1, 1, 1), (2, 1, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2), (3, 1, 1), (3, 2, 1), (4, 2, 1))
"""Pointers, 32-bit integers and constexprs of the signatures for which launchers are built."""


def wanted() -> bool:
    """Whether this process was started for GPU evaluations."""
    return bool(os.environ.get(VARIABLE))


def preload() -> None:
    """Import what a child needs; raises `UsageError` without cuda-bindings."""
    load_bindings()


def warm_up() -> None:
    """Everything above."""
    with _private_cache():
        nvidia = importlib.import_module("triton.backends.nvidia.driver")
        runtime = importlib.import_module("triton.runtime.driver")
        runtime.driver.set_active(nvidia.CudaDriver())
        if builds_launchers(nvidia):
            remember_launchers(nvidia)
        triton = Path(str(importlib.import_module("triton").__file__)).parent
        kernels.assemble(str(triton / "backends" / "nvidia" / "bin" / "ptxas"))


def builds_launchers(nvidia: Any) -> bool:
    """Whether this Triton compiles a launcher for each signature (3.6 does, later ones do not)."""
    return hasattr(nvidia, "make_launcher") and hasattr(nvidia, "compile_module_from_src")


def remember_launchers(nvidia: Any) -> None:
    """Build launchers of common signatures now; children find them by source text."""
    original: Callable[..., Any] = nvidia.compile_module_from_src
    memo: dict[str, Any] = {}

    def compile_or_recall(src: str, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == LAUNCHER and src in memo:
            return memo[src]
        return original(src, name, *args, **kwargs)

    for signature in signatures():
        source = nvidia.make_launcher({}, signature, None)
        memo[source] = original(
            source,
            LAUNCHER,
            library_dirs=nvidia.library_dirs(),
            include_dirs=nvidia.include_dirs,
            libraries=nvidia.libraries,
        )
    nvidia.compile_module_from_src = compile_or_recall


def signatures() -> Iterator[dict[str, str]]:
    """Argument types in the usual order: pointers, sizes, constexprs."""
    for pointers, integers, constants in SHAPES:
        types = ["*fp32"] * pointers + ["i32"] * integers + ["constexpr"] * constants
        yield {f"a{index}": kind for index, kind in enumerate(types)}


@contextmanager
def _private_cache() -> Iterator[None]:
    """A cache directory of our own: what is loaded from it stays loaded when it is gone."""
    before = os.environ.get("TRITON_CACHE_DIR")
    directory = tempfile.mkdtemp(prefix="kernelgym-cuda-")
    os.environ["TRITON_CACHE_DIR"] = directory
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if before is None:
            del os.environ["TRITON_CACHE_DIR"]
        else:
            os.environ["TRITON_CACHE_DIR"] = before
