"""What a zygote imports and compiles once so that its children need not.

Two reasons. Speed: the first compilation of a process costs half a second, the second a tenth.
Necessity: a child's jail hides the checkout, so every module of this package that a child may need
has to be loaded before the fork.

Not covered: `torch._dynamo` (seconds, and few candidates need it) and whatever a candidate imports
beyond the list; those cost the candidate that asks for them.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import tempfile

_OWN_PACKAGES = ("sandbox", "trace", "backends", "cuda")
_NEVER = frozenset({"kernelgym.sandbox.zygote", "kernelgym.sandbox.warmup_kernel"})
_COMMON = (
    "numpy", "numpy.random", "inspect", "linecache", "math", "traceback", "typing",
    "torch.nn.functional", "torch.overrides", "torch.utils._device", "torch.utils._python_dispatch",
    "torch.utils.checkpoint", "torch.autograd.profiler",
    "einops", "einops.layers.torch",
    "triton", "triton.language", "triton.language.extra.cuda", "triton.language.extra.libdevice",
    "triton.language.extra.cuda.libdevice", "triton.testing", "triton.tools.tensor_descriptor",
    "triton.backends.nvidia.compiler", "triton.compiler", "triton.runtime.interpreter",
    "triton.experimental.gluon", "triton.experimental.gluon.nvidia.hopper",
)  # fmt: skip


def preload(flavour: str) -> None:
    """Import everything that a child of this flavour may need; ``interpret`` switches Triton
    over."""
    if flavour == "interpret":
        os.environ["TRITON_INTERPRET"] = "1"
    for name in _COMMON:
        _import_if_there(name)
    for package in _OWN_PACKAGES:
        import_package(f"kernelgym.{package}")
    importlib.import_module("kernelgym.backends").load_all()
    gpu = importlib.import_module("kernelgym.cuda.zygote_warmup")
    if flavour == "native" and gpu.wanted():
        gpu.preload()


def _import_if_there(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return  # einops is optional, and Triton moves its modules between versions


def import_package(name: str) -> None:
    """Import every module of one of our own packages; another's is left alone."""
    if not name.startswith("kernelgym."):
        return
    package = importlib.import_module(name)
    for module in pkgutil.iter_modules(package.__path__, f"{name}."):
        if module.name not in _NEVER:
            importlib.import_module(module.name)


def warm_up(flavour: str) -> None:
    """Compile (or, for ``interpret``, interpret) a throw-away kernel; no tensor, no GPU."""
    directory = tempfile.mkdtemp(prefix="kernelgym-warmup-")
    os.environ["TRITON_CACHE_DIR"] = directory
    try:
        kernel = importlib.import_module("kernelgym.sandbox.warmup_kernel")
        kernel.interpret_once() if flavour == "interpret" else kernel.compile_once()
    finally:
        del os.environ["TRITON_CACHE_DIR"]
        shutil.rmtree(directory, ignore_errors=True)
    gpu = importlib.import_module("kernelgym.cuda.zygote_warmup")
    if flavour == "native" and gpu.wanted():
        gpu.warm_up()
