"""Birth in a control group of v2, on a real hierarchy; no controller is needed for that."""

import errno
import os
import random
import signal
import threading
from pathlib import Path

import pytest

from kernelgym.sandbox import cgroup, cgroup_places, cloning


@pytest.fixture
def directory():
    """A group of v2 of our own; skips where none can be made."""
    hierarchies, mounts = cgroup_places.memberships(), cgroup_places.mounts()
    if "" not in hierarchies or "" not in mounts:
        pytest.skip("no cgroup v2 here")
    path = Path(mounts[""] + hierarchies[""], f"kernelgym-test-{os.getpid()}")
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no group of our own: {error}")
    yield path
    path.rmdir()


@pytest.fixture
def group_fd(directory):
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def fork_into(fd):
    try:
        return cloning.fork_into(fd)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM, errno.EBUSY, errno.EOPNOTSUPP):
            pytest.skip(f"this kernel or its filter: {error}")
        raise


def checks_of_the_child(directory):
    """0, or the number of what is wrong with a process that was born in a group."""
    import subprocess

    if not Path("/proc/self/cgroup").read_text().rstrip().endswith(f"/{directory.name}"):
        return 1
    if os.getpid() != int(os.readlink("/proc/self")) or threading.active_count() != 1:
        return 2
    worked = []
    thread = threading.Thread(target=worked.append, args=(1,))
    thread.start()
    thread.join()
    second = os.fork()  # the ordinary way, as a keeper does
    if second == 0:
        signal.raise_signal(signal.SIGKILL)
    ended = os.waitpid(second, 0)[1]
    ran = subprocess.run(["true"], check=False).returncode
    return 0 if worked and os.WTERMSIG(ended) == signal.SIGKILL and ran == 0 else 3


def test_a_child_is_born_in_the_group_and_is_a_sound_process(directory, group_fd):
    pid = fork_into(group_fd)
    if pid == 0:
        os._exit(checks_of_the_child(directory))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert f"/{directory.name}" not in Path("/proc/self/cgroup").read_text()


def test_what_python_does_at_a_fork_is_done(group_fd):
    """Hooks run on both sides; `random` among them, so that two children do not draw alike."""
    seen = []
    os.register_at_fork(after_in_parent=lambda: seen.append("parent"))
    drawn = []
    for _ in range(2):
        read_end, write_end = os.pipe()
        pid = fork_into(group_fd)
        if pid == 0:
            os.write(write_end, str(random.random()).encode())
            os._exit(0)
        os.close(write_end)
        drawn.append(os.read(read_end, 100))
        os.close(read_end)
        os.waitpid(pid, 0)
    assert drawn[0] != drawn[1]
    assert seen[-2:] == ["parent", "parent"]


def test_a_descriptor_of_no_group_is_an_error_and_forks_nothing():
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    read_end, write_end = os.pipe()
    with pytest.raises(OSError, match="clone3"):
        cloning.fork_into(read_end)
    os.close(read_end)
    os.close(write_end)
    assert children.read_text() == before


def test_a_group_falls_back_to_an_ordinary_fork(tmp_path):
    group = cgroup.Group("x", set(), in_v2=str(tmp_path))  # a directory, but no group
    pid = group.fork()
    if pid == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_who_was_born_inside_is_not_moved(directory):
    procs = os.open(directory / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    group = cgroup.Group(str(directory), set(), procs_fds=[procs], in_v2=str(directory))
    pid = group.fork()
    if pid == 0:
        os._exit(0)
    born_inside = not group.procs_fds
    if not born_inside:
        group.close()
        pytest.skip("this kernel or its filter")
    group.put_in(pid)
    os.waitpid(pid, 0)
    group.close()
