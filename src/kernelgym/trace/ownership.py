"""Which functions are the candidate's own: by identity of their code object, never by name.

The loader compiles the candidate's source once and registers every code object in it, nested ones
included. A kernel is own when its function runs one of these very objects. Kernels from libraries,
from Inductor or from files that the candidate writes at run time are not.

Not covered: a candidate that edits this registry (it shares the process); the judge's other checks
are for that.
"""

from __future__ import annotations

import hashlib
from types import CodeType


class OwnCode:
    """The code objects of one source text."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}  # by id; the values keep the ids from being reused
        self._digests: dict[int, bytes] = {}
        self._lines: list[str] = []

    def register(self, text: str, code: CodeType) -> None:
        """Add a module's code object and everything nested in it."""
        self._lines = text.splitlines(keepends=True)
        pending = [code]
        while pending:
            code = pending.pop()
            self._codes[id(code)] = code
            pending.extend(item for item in code.co_consts if isinstance(item, CodeType))

    def has(self, code: object) -> bool:
        """Whether this very code object belongs to the source."""
        return id(code) in self._codes

    def digest(self, code: CodeType) -> bytes:
        """First 16 bytes of the SHA-256 of a code object's lines; of its name if it is foreign."""
        if id(code) not in self._digests:
            if self.has(code):
                numbers = [line for _, _, line in code.co_lines() if line is not None]
                first, last = code.co_firstlineno, max(numbers, default=code.co_firstlineno)
                text = "".join(self._lines[first - 1 : last])
            else:
                text = f"{code.co_filename}\0{code.co_qualname}"
            digest = hashlib.sha256(text.encode(errors="replace")).digest()[:16]
            if not self.has(code):
                return digest
            self._digests[id(code)] = digest
        return self._digests[id(code)]
