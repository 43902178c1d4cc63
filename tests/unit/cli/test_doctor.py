"""The doctor: every check has a fix, children have deadlines, the exit code follows."""

import json

import pytest

from kernelgym.cli import checks, doctor, probing
from kernelgym.cli.checks import Check
from kernelgym.cli.main import main


def use(monkeypatch, *found):
    monkeypatch.setattr(doctor, "machine_checks", lambda: list(found))
    monkeypatch.setattr(doctor, "probe_checks", list)


def test_failed_check_shows_its_fix_and_exits_3(monkeypatch, capsys):
    use(monkeypatch, Check("a", "ok", "fine", "unused"), Check("b", "failed", "none", "get one"))
    assert main(["doctor"]) == 3
    assert capsys.readouterr().out.splitlines() == [
        "a  ok      fine",
        "b  failed  none",
        "           fix: get one",
    ]


def test_warning_alone_is_no_failure_and_json_has_all(monkeypatch, capsys):
    use(monkeypatch, Check("gpu", "warning", "none", "fix"))
    assert main(["doctor", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == {
        "ok": True,
        "checks": [{"name": "gpu", "status": "warning", "found": "none", "fix": "fix"}],
    }


def test_machine_checks_without_compiler_or_headers_name_make_system(monkeypatch, tmp_path):
    monkeypatch.setattr(checks.shutil, "which", lambda _: None)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(checks.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    found = {check.name: check for check in checks.machine_checks()}
    for name in ("compiler", "Python.h"):
        assert found[name].status == "failed"
        assert "make system" in found[name].fix
    assert found["python"].status == "ok"


def test_little_disk_is_a_warning(monkeypatch):
    usage = checks.shutil.disk_usage("/tmp")
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    found = {check.name: check for check in checks.machine_checks()}
    assert (found["disk"].status, found["disk"].found[:7]) == ("warning", "0.0 GiB")


@pytest.fixture
def child(monkeypatch, tmp_path):
    """Make modules that `ask` can run: body to answer."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(body, deadline_s=30.0):
        (tmp_path / "probe_child.py").write_text(body)
        return probing.ask("probe_child", deadline_s=deadline_s)

    return run


def test_child_that_answers_hangs_dies_or_babbles(child):
    assert child('print("noise"); print("{\\"a\\": 1}")').data == {"a": 1}
    hung = child("import time; time.sleep(60)", deadline_s=1.0)
    assert (hung.data, hung.error) == (None, "no answer within 1 s")
    assert "boom" in child("raise SystemExit('boom')").error
    assert child("import os; os.abort()").error == "exit status -6"
    assert child("print('no json')").data is None
    assert child("print('[1]')").data is None


def answers(monkeypatch, data, error=""):
    monkeypatch.setattr(probing, "ask", lambda *_, **__: probing.Answer(data, error))


@pytest.mark.parametrize(
    ("torch", "triton", "status"),
    [
        ("2.13.0+cpu", "3.9.0", ["ok", "ok"]),
        ("2.11.0+cu130", "3.6.0", ["ok", "ok"]),
        ("2.10.1", "3.10.0", ["failed", "failed"]),
        ("3.0.0", "3.5.9", ["ok", "failed"]),
    ],
)
def test_supported_versions(monkeypatch, torch, triton, status):
    answers(monkeypatch, {"torch": torch, "torch_cuda": None, "triton": triton})
    assert [check.status for check in probing.toolchain()] == status


def test_probes_that_fail_say_so(monkeypatch):
    answers(monkeypatch, None, "ModuleNotFoundError: No module named 'torch'")
    for probe in (
        probing.toolchain,
        probing.interpreter,
        probing.cross_compile,
        probing.gpu,
        probing.jail,
    ):
        [check] = probe()
        assert check.status == "failed"
        assert "No module named 'torch'" in check.found
        assert check.fix


def test_wrong_values_in_the_interpreter_are_a_failure(monkeypatch):
    answers(monkeypatch, {"right": False})
    [check] = probing.interpreter()
    assert (check.status, check.found[:8]) == ("failed", "a kernel")


def test_gpus(monkeypatch):
    answers(monkeypatch, {"driver": None, "gpus": []})
    assert [check.status for check in probing.gpu()] == ["warning"]
    card = {
        "index": 0, "name": "NVIDIA H200", "memory_gib": 139.8, "free_gib": 139.0,
        "clock_mhz": 1980, "max_clock_mhz": 1980, "persistence": True,
    }  # fmt: skip
    answers(monkeypatch, {"driver": "580.1", "gpus": [card, card | {"persistence": False}]})
    first, second = probing.gpu()
    assert first.status == "ok"
    assert "NVIDIA H200, driver 580.1, 139.0 of 139.8 GiB free" in first.found
    assert "nvidia-smi -pm 1" in second.fix


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"level": "L1", "missing": [], "breaches": []}, "ok", "L1, attacked and held"),
        ({"level": "L1", "missing": ["own_uid"], "breaches": []}, "ok", "missing: own_uid"),
        (
            {"level": "L0", "missing": [], "breaches": []},
            "warning",
            "L0, attacked and held; not L1",
        ),
        ({"level": "L0", "missing": [], "breaches": ["files: x"]}, "warning", "not L1: files: x"),
        ({"error": "cannot unshare"}, "failed", "cannot unshare"),
    ],
)
def test_jail(monkeypatch, answer, status, words):
    answers(monkeypatch, answer)
    [check] = probing.jail()
    assert check.status == status
    assert words in check.found
    assert status == "ok" or "--jail L0" in check.fix


def test_real_children_of_the_doctor():
    found = {check.name: check for check in probing.probe_checks()}
    assert found["interpreter"].status == "ok", found["interpreter"]
    assert found["cross-compile"].status == "ok", found["cross-compile"]
    assert found["torch"].status == "ok"
