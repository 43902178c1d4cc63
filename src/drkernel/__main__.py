"""``python -m drkernel``: the command line, where its script is not installed."""

from drkernel.cli.main import run

run()
