"""What the process's exit status says; the same numbers as ``kernelgym``."""

from __future__ import annotations

OK = 0
"""The command did what it should."""
NOTHING_FOUND = 1
"""It ran, and found nothing worth keeping: no correct kernel, no trajectory that passes."""
USAGE = 2
"""The command line or a file it names is at fault."""
SERVICE = 3
"""The gym, the machine, a GPU or the policy's server is at fault."""
INTERRUPTED = 130
"""Stopped by the user; what was finished is stored."""
