"""Attacks by socket: every address family, the loopback, the unix sockets of the host."""

from __future__ import annotations

import socket

from kernelgym.sandbox.attacks.target import Target, succeeds

_FAMILIES = range(46)
"""AF_UNSPEC to the last address family of Linux (AF_MCTP)."""


def sockets(target: Target) -> list[str]:
    """Make a socket of every address family but AF_UNIX."""
    got = [
        f"socket of family {family}"
        for family in _FAMILIES
        if family != socket.AF_UNIX
        and any(succeeds(_socket, family, kind) for kind in (1, 2, 3, 5))
    ]
    if target.tcp_port and succeeds(_connect_tcp, target.tcp_port):
        got.append("connected to the host's loopback")
    return got


def unix_sockets(target: Target) -> list[str]:
    """Reach the host's unix sockets, by path, by abstract name, and by datagram."""
    got: list[str] = []
    for address in target.unix_addresses:
        name = "\0" + address[1:] if address.startswith("@") else address
        if succeeds(_connect_unix, name):
            got.append(f"connected to {address}")
        if succeeds(_send_datagram, name):
            got.append(f"sent a datagram to {address}")
    return got


def _socket(family: int, kind: int) -> None:
    socket.socket(family, kind, 0).close()


def _connect_tcp(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(2.0)
        sock.connect(("127.0.0.1", port))


def _connect_unix(name: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(2.0)
        sock.connect(name)


def _send_datagram(name: str) -> None:
    """Through a connected pair, whose ``sendmsg`` can name another receiver."""
    ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, other:
        ours.sendto(b"x", name + "-datagram")
