"""Imports a candidate from a file: Triton refuses kernels whose source it cannot read back.

The source is compiled here, once, so that its code objects are known before any of it runs
(`kernelgym.trace.ownership`).
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kernelgym.trace.ownership import OwnCode

MODULE = "candidate"
"""Name of the candidate's module; never ``__main__``."""
FILE = "candidate.py"


@dataclass
class LoadedSource:
    """An imported candidate."""

    module: ModuleType
    path: Path
    text: str


def write(source: bytes, directory: Path) -> Path:
    """Put the source where it will be imported from."""
    path = directory / FILE
    path.write_bytes(source)
    return path


def load(source: bytes, directory: Path, own: OwnCode) -> LoadedSource:
    """Write, compile and run the source as module ``candidate``; raises whatever it raises."""
    path = write(source, directory)
    code = compile(source, str(path), "exec", dont_inherit=True)
    text = importlib.util.decode_source(source)
    own.register(text, code)
    loader = importlib.machinery.SourceFileLoader(MODULE, str(path))
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    exec(code, module.__dict__)
    return LoadedSource(module, path, text)
