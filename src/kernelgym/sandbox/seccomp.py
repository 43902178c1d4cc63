"""The system call filter: a classic BPF program, written and installed without libseccomp.

A deny-list over what this file knows, and a refusal of every number it does not know, which
together are an allow-list that need not name the 300 harmless calls. Refused calls fail with an
errno; nothing is killed, so that a library that merely probes goes on. memfd_create stays allowed:
CUDA cannot start without it. Nor can it without a socket of its own: cuInit binds and listens on an
abstract SEQPACKET address (``cuda-uvmfd-...``), and says CUDA_ERROR_OPERATING_SYSTEM otherwise.

Not covered: pointers. A filter sees registers, not memory, so an address inside ``sendmsg`` or the
flags inside ``clone3`` cannot be judged; such calls are refused whole or made harmless otherwise.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from kernelgym.sandbox import linux, syscalls

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_OFFSET, _ARCH_OFFSET = 0, 4
_SET_MODE_FILTER, _FLAG_SPEC_ALLOW = 1, 4

NAMESPACE_FLAGS = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWCGROUP
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
)
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 1, 5, 0xF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PERSONALITY_QUERY = 0xFFFFFFFF

REFUSED = (
    "acct add_key adjtimex afs_syscall bpf chroot clock_adjtime clock_settime create_module"
    " delete_module fanotify_init fanotify_mark finit_module fsconfig fsmount fsopen fspick"
    " get_kernel_syms getpmsg init_module ioperm iopl kcmp kexec_file_load kexec_load keyctl"
    " listmount lookup_dcookie migrate_pages modify_ldt mount mount_setattr move_mount move_pages"
    " name_to_handle_at nfsservctl open_by_handle_at open_tree open_tree_attr perf_event_open"
    " pidfd_getfd pivot_root process_madvise process_mrelease process_vm_readv process_vm_writev"
    " ptrace putpmsg query_module quotactl quotactl_fd reboot request_key security setdomainname"
    " sethostname setns settimeofday statmount swapoff swapon _sysctl sysfs syslog tuxcall umount2"
    " unshare uselib ustat vhangup vserver"
)
"""Refused with EPERM (names, separated by blanks)."""
ABSENT = "clone3 io_uring_enter io_uring_register io_uring_setup memfd_secret userfaultfd"
"""Refused with ENOSYS, so that libraries fall back: glibc from clone3 to clone, whose flags a
filter can see."""
SHARED_WITHOUT_NAMESPACES = "mq_open msgget semget shmget"
"""Refused with ENOSYS at L0, where what they make outlives the process and is open to others, and
where memory is polled, which does not see it."""
SIGNALLING = "kill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal"
"""At L0 with a shared user, only towards the process itself and its own group."""


@dataclass(frozen=True)
class Rule:
    """What happens to one system call.

    ``equal``: it is refused unless the argument, after ``mask``, is one of these. ``bits``: it is
    refused when the argument has one of these bits. Neither: it is refused.
    """

    name: str
    error: int = errno.EPERM
    argument: int = 0
    equal: tuple[int, ...] = ()
    mask: int = 0
    bits: int = 0
    unequal: tuple[int, ...] = ()
    """Refused when the argument is one of these."""


def rules(
    *,
    in_namespaces: bool,
    alone: bool,
    own_pid: int = 0,
    polled: bool = False,
    memfd: bool = False,
    listens: bool = False,
) -> list[Rule]:
    """The rules of a level.

    ``alone``: no process outside the jail has its user. ``polled``: no cgroup bounds its memory, so
    what a poll cannot see is refused: memory that nothing maps (``memfd`` excepts anonymous files),
    and hiding from the poll. ``listens``: without namespaces it may make SEQPACKET sockets and
    listen, as CUDA does, but connect to nothing.
    """
    found = [Rule(name) for name in REFUSED.split()]
    found += [Rule(name, errno.ENOSYS) for name in ABSENT.split()]
    found += [
        Rule("clone", bits=NAMESPACE_FLAGS),
        Rule("personality", equal=(0, _PERSONALITY_QUERY)),
        Rule("prlimit64", equal=(0,)),
        Rule("ioctl", argument=1, unequal=(_TIOCSTI, _TIOCLINUX)),
    ]
    if polled or not in_namespaces:
        found += [Rule(name, errno.ENOSYS) for name in SHARED_WITHOUT_NAMESPACES.split()]
    if polled:
        found.append(Rule("prctl", unequal=(linux.PR_SET_DUMPABLE,)))
        if not memfd:
            found.append(Rule("memfd_create", errno.ENOSYS))
    found += _socket_rules(in_namespaces=in_namespaces, listens=listens)
    if not in_namespaces and not alone:
        found += [Rule(name, equal=(0, own_pid)) for name in SIGNALLING.split()]
        found += [Rule("tkill")]
    return found


def _socket_rules(*, in_namespaces: bool, listens: bool) -> list[Rule]:
    def unix_only(name: str) -> Rule:
        return Rule(name, errno.EAFNOSUPPORT, equal=(_AF_UNIX,))

    if in_namespaces:
        return [unix_only("socket"), unix_only("socketpair")]
    # A path or an abstract name leads outside. Only pairs, and only of the kind for which
    # sendmsg cannot name another receiver.
    found = [
        unix_only("socketpair"),
        Rule("socketpair", argument=1, mask=_SOCK_TYPE_MASK, equal=(_SOCK_STREAM,)),
    ]
    if not listens:
        return [*found, Rule("socket", errno.EAFNOSUPPORT)]
    # A SEQPACKET socket sends nothing before it is connected, whatever address sendmsg names.
    return [
        *found,
        unix_only("socket"),
        Rule("socket", argument=1, mask=_SOCK_TYPE_MASK, equal=(_SOCK_SEQPACKET,)),
        Rule("connect"),
    ]


def program(wanted: Iterable[Rule], machine: str | None = None) -> bytes:
    """The filter as BPF instructions, for this machine or a named one."""
    arch, numbers = syscalls.table(machine)
    lines = [
        _statement(_LOAD, _ARCH_OFFSET),
        _jump(_JUMP_EQUAL, arch, 1, 0),
        _statement(_RETURN, _KILL),
        _statement(_LOAD, _NUMBER_OFFSET),
        # Newer than this file, or (x86_64) of the x32 ABI, whose numbers carry a high bit.
        _jump(_JUMP_AT_LEAST, syscalls.NEWEST + 1, 0, 1),
        _statement(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for rule in wanted:
        if rule.name in numbers:
            lines += _compile(rule, numbers[rule.name])
    lines.append(_statement(_RETURN, _ALLOW))
    return b"".join(lines)


def _compile(rule: Rule, number: int) -> list[bytes]:
    """Instructions of one rule; they begin and end with the number in the accumulator."""
    refuse = _statement(_RETURN, _ERRNO | rule.error)
    body: list[bytes] = []
    if rule.equal or rule.bits or rule.unequal:
        body.append(_statement(_LOAD, 16 + 8 * rule.argument))
        if rule.mask:
            body.append(_statement(_AND, rule.mask))
        if rule.bits:
            body.append(_jump(_JUMP_SET, rule.bits, 0, 1))
        elif rule.unequal:
            count = len(rule.unequal)
            for index, value in enumerate(rule.unequal):
                last = index == count - 1
                body.append(_jump(_JUMP_EQUAL, value, count - 1 - index, 1 if last else 0))
        else:
            count = len(rule.equal)
            for index, value in enumerate(rule.equal):
                body.append(_jump(_JUMP_EQUAL, value, count - index, 0))
        body += [refuse, _statement(_LOAD, _NUMBER_OFFSET)]
    else:
        body.append(refuse)
    return [_jump(_JUMP_EQUAL, number, 0, len(body)), *body]


def _statement(code: int, value: int) -> bytes:
    return struct.pack("HBBI", code, 0, 0, value)


def _jump(code: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


@functools.cache
def code_of(
    *,
    in_namespaces: bool,
    alone: bool,
    own_pid: int = 0,
    polled: bool = False,
    memfd: bool = False,
    listens: bool = False,
) -> bytes:
    """`program` of `rules`, remembered: the forking process asks first, its children then know."""
    return program(
        rules(
            in_namespaces=in_namespaces,
            alone=alone,
            own_pid=own_pid,
            polled=polled,
            memfd=memfd,
            listens=listens,
        )
    )


def install(code: bytes) -> None:
    """Filter the calling thread and everything it starts, for good. Needs no_new_privs."""
    buffer = ctypes.create_string_buffer(code, len(code))
    header = _Program(length=len(code) // 8, filter=ctypes.addressof(buffer))
    try:
        linux.syscall("seccomp", _SET_MODE_FILTER, _FLAG_SPEC_ALLOW, header)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a kernel that does not know the flag
            raise
        linux.syscall("seccomp", _SET_MODE_FILTER, 0, header)
