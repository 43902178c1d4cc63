"""Network namespaces for a fault run: programs whose only way to the server can be cut and mended.

    run    198.18.R.N/30, a pair of veth    program in its own namespace
           link(): the end on our side goes down, then up again

Needs root and the command ip (iproute2). What was sent while the link is down is not refused but
lost; both ends find out by their own timeouts, as with a pulled cable.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from contextlib import suppress


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class NetworkNamespace:
    """One namespace and the cable to it."""

    def __init__(self, number: int) -> None:
        """``number``: 0 to 63, unlike those of this process's others."""
        self.name = f"kg{os.getpid()}n{number}"
        self._cable, far = f"kg{os.getpid()}a{number}", f"kg{os.getpid()}b{number}"
        net = f"198.18.{random.SystemRandom().randrange(256)}"
        self.gateway = f"{net}.{4 * number + 1}"
        """Address of this machine, as seen from inside."""
        _ip("netns", "add", self.name)
        try:
            _ip("link", "add", self._cable, "type", "veth", "peer", "name", far)
            _ip("link", "set", far, "netns", self.name)
            _ip("address", "add", f"{self.gateway}/30", "dev", self._cable)
            _ip("link", "set", self._cable, "up")
            _ip("-n", self.name, "address", "add", f"{net}.{4 * number + 2}/30", "dev", far)
            _ip("-n", self.name, "link", "set", far, "up")
            _ip("-n", self.name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError:
            self.delete()
            raise

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that is to run inside; it keeps its process id."""
        return ("ip", "netns", "exec", self.name)

    def link(self, *, up: bool) -> None:
        """Mend or cut the cable."""
        _ip("link", "set", self._cable, "up" if up else "down")

    def delete(self) -> None:
        """Take all of it away; what still runs inside has no network any more."""
        for words in (("link", "del", self._cable), ("netns", "del", self.name)):
            with suppress(subprocess.CalledProcessError):
                _ip(*words)


def why_impossible() -> str:
    """Empty where namespaces can be made, else the reason."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("ip") is None:
        return "needs the command ip (package iproute2)"
    try:
        NetworkNamespace(63).delete()
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)}: {error.stderr.strip()}"
    return ""
