"""The filter's instructions: interpreted here for both architectures, and run by the kernel."""

import errno
import os
import signal
import struct

import pytest

from kernelgym.sandbox import seccomp, syscalls
from kernelgym.sandbox.attacks.kernel import call_with_nonsense

ALLOW, KILL = "allow", "kill"
X86 = syscalls.X86_64


def verdict(code, number, *arguments, arch):
    """What a filter answers: ``allow``, ``kill`` or an errno. Follows the kernel's rules."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *[*arguments, *[0] * (6 - len(arguments))])
    lines = [struct.unpack_from("<HBBI", code, offset) for offset in range(0, len(code), 8)]
    accumulator, position = 0, 0
    while True:
        operation, if_true, if_false, value = lines[position]
        position += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x06:
            break
        else:
            tests = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: accumulator & value,
            }
            position += if_true if tests[operation] else if_false
    action = value & 0xFFFF0000
    return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(action, value & 0xFFFF)


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request):
    arch, numbers = syscalls.table(request.param)

    def ask(rules, name, *arguments):
        code = seccomp.program(rules, request.param)
        return verdict(code, numbers[name], *arguments, arch=arch)

    ask.numbers, ask.arch, ask.name = numbers, arch, request.param
    return ask


L1 = seccomp.rules(in_namespaces=True, alone=True)
L0 = seccomp.rules(in_namespaces=False, alone=True)
L0_SHARED = seccomp.rules(in_namespaces=False, alone=False, own_pid=77)
POLLED = seccomp.rules(in_namespaces=True, alone=True, polled=True)
POLLED_GPU = seccomp.rules(in_namespaces=True, alone=True, polled=True, memfd=True)
L0_GPU = seccomp.rules(in_namespaces=False, alone=True, memfd=True, listens=True)
LEVELS = [L1, L0, L0_SHARED, POLLED, L0_GPU]


@pytest.mark.parametrize("rules", LEVELS)
def test_every_refused_call_is_refused(machine, rules):
    for names, error in ((seccomp.REFUSED, errno.EPERM), (seccomp.ABSENT, errno.ENOSYS)):
        for name in names.split():
            if name in machine.numbers:
                assert machine(rules, name) == error, name


@pytest.mark.parametrize("rules", LEVELS)
def test_unknown_calls_and_foreign_architectures(machine, rules):
    code = seccomp.program(rules, machine.name)
    for number in (syscalls.NEWEST + 1, 1000, syscalls.X32_BIT, syscalls.X32_BIT | 59, 2**32 - 1):
        assert verdict(code, number, arch=machine.arch) == errno.ENOSYS
    assert verdict(code, 0, arch=0x40000003) == KILL  # 32-bit x86


@pytest.mark.parametrize("rules", LEVELS)
def test_ordinary_calls_pass(machine, rules):
    code = seccomp.program(rules, machine.name)
    refused = {rule.name for rule in rules}
    known = {number for name, number in machine.numbers.items() if name in refused}
    for number in set(range(syscalls.NEWEST + 1)) - known:
        assert verdict(code, number, arch=machine.arch) == ALLOW, number


def test_clone_may_make_threads_and_processes_but_no_namespace(machine):
    thread = 0x3D0F00
    assert machine(L1, "clone", thread) == ALLOW
    assert machine(L1, "clone", signal.SIGCHLD) == ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert machine(L1, "clone", flag | signal.SIGCHLD) == errno.EPERM


def test_sockets(machine):
    assert machine(L1, "socket", 1, 1) == ALLOW
    assert machine(L0, "socket", 1, 1) == errno.EAFNOSUPPORT
    for family in (0, 2, 10, 16, 17, 40):
        assert machine(L1, "socket", family, 1) == errno.EAFNOSUPPORT
        assert machine(L1, "socketpair", family, 1) == errno.EAFNOSUPPORT
        assert machine(L0, "socketpair", family, 1) == errno.EAFNOSUPPORT
    cloexec = 0o2000000
    assert machine(L0, "socketpair", 1, 1 | cloexec) == ALLOW
    assert machine(L0, "socketpair", 1, 2 | cloexec) == errno.EPERM  # datagrams can be addressed


def test_cuda_may_listen_without_namespaces_and_connect_to_nothing(machine):
    """cuInit listens on an abstract SEQPACKET address, and fails where it may not."""
    cloexec = 0o2000000
    assert machine(L0_GPU, "socket", 1, 5 | cloexec) == ALLOW
    assert machine(L0_GPU, "connect") == errno.EPERM
    for kind in (1, 2, 3):
        assert machine(L0_GPU, "socket", 1, kind | cloexec) == errno.EPERM
    for family in (0, 2, 10, 16, 17, 40):
        assert machine(L0_GPU, "socket", family, 5) == errno.EAFNOSUPPORT
    assert machine(L0_GPU, "socketpair", 1, 2) == errno.EPERM
    assert machine(L0, "socket", 1, 5) == errno.EAFNOSUPPORT


def test_the_high_half_of_an_argument_changes_nothing(machine):
    """The kernel takes an int: a filter that looked at 64 bits could be talked past."""
    assert machine(L1, "socket", (1 << 32) | 2, 1) == errno.EAFNOSUPPORT
    assert machine(L1, "clone", (1 << 40) | 0x10000000) == errno.EPERM


def test_other_arguments(machine):
    assert machine(L1, "prlimit64", 0) == ALLOW
    assert machine(L1, "prlimit64", 1) == errno.EPERM
    assert machine(L1, "ioctl", 1, 0x5412) == errno.EPERM
    assert machine(L1, "ioctl", 1, 0x541C) == errno.EPERM
    assert machine(L1, "ioctl", 1, 0x5401) == ALLOW
    assert machine(L1, "personality", 0xFFFFFFFF) == ALLOW
    assert machine(L1, "personality", 0x40000) == errno.EPERM


def test_signals_where_the_user_is_shared(machine):
    for name in seccomp.SIGNALLING.split():
        assert machine(L0, name, 1) == ALLOW
        assert machine(L0_SHARED, name, 1) == errno.EPERM
        if name != "pidfd_send_signal":
            assert machine(L0_SHARED, name, 77) == ALLOW
            assert machine(L0_SHARED, name, 2**32 - 1) == errno.EPERM  # everybody


def test_what_a_poll_cannot_see(machine):
    assert machine(L1, "memfd_create") == ALLOW
    assert machine(POLLED, "memfd_create") == errno.ENOSYS
    assert machine(POLLED_GPU, "memfd_create") == ALLOW
    assert machine(POLLED, "shmget") == errno.ENOSYS
    assert machine(POLLED, "prctl", 4) == errno.EPERM
    assert machine(POLLED, "prctl", 38) == ALLOW


def test_tables_agree_where_numbers_are_shared():
    """Since 5.1 a new call has the same number everywhere."""
    for name in set(X86) & set(syscalls.AARCH64):
        if X86[name] >= 424:
            assert X86[name] == syscalls.AARCH64[name], name
    assert len(set(X86.values())) == len(X86)
    assert len(set(syscalls.AARCH64.values())) == len(syscalls.AARCH64)


def in_child(action):
    """Run in a forked child; its answer as bytes."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, repr(action()).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    return data


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="without privileges the kernel refuses by itself")
def test_the_kernel_takes_the_filter_and_it_decides():
    names = [*seccomp.REFUSED.split(), *seccomp.ABSENT.split()]
    names = [name for name in names if name in syscalls.table()[1] and name != "vhangup"]

    def filtered():
        seccomp.install(seccomp.program(L1))
        return [call_with_nonsense(name) for name in names]

    without = eval(in_child(lambda: [call_with_nonsense(name) for name in names]))
    within = eval(in_child(filtered))
    assert set(within) == {errno.EPERM, errno.ENOSYS}
    assert sum(a != b for a, b in zip(without, within, strict=True)) > 30


def test_fork_and_threads_work_under_the_filter():
    def action():
        import threading

        if os.geteuid() != 0:
            from kernelgym.sandbox import linux

            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.install(seccomp.program(L1))
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        pid = os.fork()
        if pid == 0:
            os._exit(5)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert in_child(action) == b"5"
