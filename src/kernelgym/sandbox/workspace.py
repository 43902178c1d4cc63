"""The private directory of one candidate process, and the environment that points into it.

Caches are never shared: a planted entry in Triton's or Inductor's cache would be run unchecked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_DIRECTORIES = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "XDG_CACHE_HOME": "cache",
    "TRITON_CACHE_DIR": "triton",
    "TRITON_HOME": "home",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "CUDA_CACHE_PATH": "cuda",
}
_FIXED = {
    "TRITON_DEFAULT_FP_FUSION": "1",  # Triton 3.10 turns its default over
    "USER": "candidate",  # the uid may have no name, and Inductor asks for one
    "LOGNAME": "candidate",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Workspace:
    """Directories of one process, below the ``TMPDIR`` it was given."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="kernelgym-", dir=os.environ.get("TMPDIR")))
        self.source = self._make("source")

    def _make(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(exist_ok=True)
        return path

    def enter(self) -> None:
        """Point the environment, the working directory and `tempfile` into the workspace."""
        os.environ.setdefault("PATH", os.defpath)
        os.environ.update(_FIXED)
        for variable, name in _DIRECTORIES.items():
            os.environ[variable] = str(self._make(name))
        tempfile.tempdir = None
        os.chdir(self._make("work"))

    def remove(self) -> None:
        """Delete it all; what cannot be deleted stays (a jail drops its whole tmpfs anyway)."""
        os.chdir("/")
        shutil.rmtree(self.root, ignore_errors=True)
