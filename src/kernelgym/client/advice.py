"""What the gym warns of when it accepts work, passed on to the log ``kernelgym.client``.

A program that has set up no logging sees it on stderr. Each sentence comes once a client: a run
that submits a batch a second does not repeat it.
"""

from __future__ import annotations

import logging

from kernelgym.client.batch import Batch

log = logging.getLogger("kernelgym.client")


class Advice:
    """The warnings of one client."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def pass_on(self, batch: Batch) -> None:
        """Log what this batch was accepted with and nobody has been told."""
        for one in batch.warnings:
            if one not in self._said:
                self._said.add(one)
                log.warning(one)
