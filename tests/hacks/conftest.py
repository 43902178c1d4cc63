"""One host for the whole corpus, one zygote for judges in this process, one naive evaluator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hack_corpus
import pytest
from hack_corpus import Case
from local_judge import LocalJudge
from session import Session

from kernelgym.sandbox.zygote_client import ZygoteClient
from kernelgym.schema import EvalResult

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def judged(request: pytest.FixtureRequest) -> Iterator[Callable[[Case], EvalResult]]:
    """Results of the cheats and twins that were selected; all are submitted at once."""
    wanted = [
        item.callspec.params["case"]
        for item in request.session.items
        if "judged" in getattr(item, "fixturenames", ())
        and hasattr(item, "callspec")
        and isinstance(item.callspec.params.get("case"), Case)
    ]
    with Session() as session:
        futures = session.submit_all(wanted)
        yield lambda case: futures[case.name].result()


@pytest.fixture(scope="session")
def local_judge() -> Iterator[LocalJudge]:
    zygote = ZygoteClient()
    yield LocalJudge(zygote)
    zygote.close()


@pytest.fixture(scope="session")
def naive() -> Iterator[Callable[[Case], dict]]:
    """Verdicts of an evaluator that shares its process with the candidate."""
    process = subprocess.Popen(
        [sys.executable, str(_HERE / "naive.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd="/",
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(case: Case) -> dict:
        request = {
            "source": case.source,
            "reference": case.task().reference,
            "weakness": case.naive,
        }
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    process.wait(timeout=30)
    process.stdout.close()


assert hack_corpus.HERE == _HERE
