"""The state machine of test_lease_model.py for longer than a suite may take, with a new seed.

python tests/unit/broker/long_model_run.py --examples 300
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import test_lease_model

from kernelgym.broker.embedded import EmbeddedBroker


def main() -> None:
    """Run against the server that `kernelgym serve` would take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernelgym-model-") as directory:
        server = EmbeddedBroker.start(Path(directory), throw_away=True)
        try:
            script = test_lease_model.scripted_time()
            test_lease_model.drive(server, script, options.examples, derandomize=False)
        finally:
            server.stop()
    print(f"{options.examples} histories of the script agree with the model")


if __name__ == "__main__":
    main()
