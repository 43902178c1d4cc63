"""Tasks from files, the built-in set and a KernelBench checkout; bad names and bad files."""

import os
import subprocess
import sys

import pytest

from kernelgym.errors import UsageError
from kernelgym.schema import MAX_SOURCE_BYTES
from kernelgym.tasks.constants import constant_values, with_constants
from kernelgym.tasks.task import find_task, task_from_file

REFERENCE = "import torch\n\nclass Model:\n    pass\n"


def write(path, data):
    if isinstance(data, bytes):
        path.write_bytes(data)
    else:
        path.write_text(data)
    return path


def test_task_from_a_reference_file(tmp_path):
    task = task_from_file(write(tmp_path / "relu.py", "\ufeff" + REFERENCE))
    assert (task.name, task.reference, task.entry_point) == ("relu", REFERENCE, "Model")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x7fELF\0\0", "binary file"),
        (b"# caf\xe9\n", "not UTF-8 text (byte 5 is 0xe9)"),
        (b"#" * (MAX_SOURCE_BYTES + 1), "1,000,001 bytes; at most 1,000,000"),
        (b"#" * 10_000_000, "10,000,000 bytes"),
    ],
)
def test_file_that_is_no_source(tmp_path, data, words):
    with pytest.raises(UsageError, match="reference") as caught:
        task_from_file(write(tmp_path / "bad.py", data))
    assert words in str(caught.value)
    assert caught.value.hint


def test_file_at_the_limit_is_accepted(tmp_path):
    assert task_from_file(write(tmp_path / "long.py", b"#" * MAX_SOURCE_BYTES)).name == "long"


def test_directory_device_fifo_and_missing_file(tmp_path):
    write(tmp_path / "softmax.py", REFERENCE)
    os.mkfifo(tmp_path / "fifo")
    cases = {
        tmp_path: "is a directory",
        tmp_path / "fifo": "not a regular file",
        tmp_path / "sotfmax.py": f"did you mean {tmp_path / 'softmax.py'}?",
        tmp_path / "nowhere" / "x.py": "no such file",
        tmp_path / "softmax.py" / "x.py": "no such file",
    }
    for path, words in cases.items():
        with pytest.raises(UsageError) as caught:
            task_from_file(path)
        assert words in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path):
    path = write(tmp_path / "secret.py", REFERENCE)
    path.chmod(0)
    with pytest.raises(UsageError, match="Permission denied"):
        task_from_file(path)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("builtin/sotfmax", "builtin/softmax"),
        ("softmax", "builtin/softmax"),
        ("builtin/softmax:cpu", "builtin/softmax:gpu"),
        ("Builtin/add", "builtin/add"),
    ],
)
def test_unknown_name_lists_near_ones(name, near):
    with pytest.raises(UsageError) as caught:
        find_task(name)
    assert near in str(caught.value)
    assert caught.value.hint == "kernelgym tasks list"


def test_name_like_nothing_still_gives_the_command_to_try():
    with pytest.raises(UsageError) as caught:
        find_task("../../etc/passwd")
    assert str(caught.value) == "no task '../../etc/passwd'"
    assert caught.value.hint == "kernelgym tasks list"


@pytest.fixture
def checkout(tmp_path):
    level = tmp_path / "KernelBench" / "level2"
    level.mkdir(parents=True)
    (tmp_path / "KernelBench" / "level1").mkdir()
    write(level / "4_Short.py", REFERENCE + "# 4\n")
    write(level / "40_Matmul_Scaling.py", REFERENCE + "# 40\n")
    write(level / "notes.py", "no problem")
    return tmp_path


@pytest.mark.parametrize("name", ["level2/40", "level2/40_Matmul_Scaling"])
def test_kernelbench_by_number_or_full_name(checkout, name):
    task = find_task(name, checkout)
    assert task.name == "level2/40_Matmul_Scaling"
    assert task.reference.endswith("# 40\n")
    assert task.labels == {"level": "2", "problem": "40"}


def test_kernelbench_root_may_be_the_inner_directory_or_come_from_the_environment(
    checkout, monkeypatch
):
    assert find_task("level2/4", checkout / "KernelBench").name == "level2/4_Short"
    monkeypatch.setenv("KERNELBENCH_DIR", str(checkout))
    assert find_task("level2/4").name == "level2/4_Short"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("level2/41", "no problem 'level2/41'"),
        ("level2/40_Matmul_Scalin", "did you mean level2/40_Matmul_Scaling?"),
        ("level9/1", "levels there: level1, level2"),
        ("level2", "no problem 'level2'"),
        ("level/../../x", "no problem"),
    ],
)
def test_kernelbench_bad_names(checkout, name, words):
    with pytest.raises(UsageError) as caught:
        find_task(name, checkout)
    assert words in str(caught.value)


def test_kernelbench_without_or_with_a_wrong_root(tmp_path, monkeypatch):
    monkeypatch.delenv("KERNELBENCH_DIR", raising=False)
    with pytest.raises(UsageError, match="needs --root"):
        find_task("level1/1")
    with pytest.raises(UsageError, match="no KernelBench checkout"):
        find_task("level1/1", tmp_path)


def test_constants_are_replaced_and_nothing_else_moves():
    source = "é = 1; N = 4_096  # size\nM = (\n    2\n)\nK = N * 2\nfor N in []: pass\n"
    assert constant_values(source) == {"é": 1, "N": 4096, "M": 2}
    assert with_constants(source, {"N": 8, "é": 5}).startswith("é = 5; N = 8  # size\nM = (\n")
    with pytest.raises(KeyError):
        with_constants(source, {"K": 1})


def test_tasks_import_no_torch():
    code = (
        "import sys; from kernelgym.tasks.task import find_task; find_task('builtin/add');"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'triton')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
