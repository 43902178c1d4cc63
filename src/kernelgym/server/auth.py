"""Who may do what: bearer tokens with a role and a name.

    client   submits, reads and cancels its own evaluations, sees queue and workers
    worker   claims, keeps and completes evaluations
    admin    everything, of everybody

A tokens file has one ``ROLE NAME TOKEN`` a line. A server without one listens on this machine only:
then everyone on it is a client, by the name in the header ``Kernelgym-Client``, and workers and
admins use tokens that the server keeps in its state directory, readable by its user only.

Not covered: users on a shared machine that trust each other less than that; give them tokens.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fastapi import Request

from kernelgym.api import NAME
from kernelgym.errors import UsageError
from kernelgym.server.problems import ProblemError

Role = Literal["client", "worker", "admin"]
_SHORTEST_TOKEN = 16
_NAME = re.compile(NAME)
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="kernelgym"'}
_BASIC = {"WWW-Authenticate": 'Basic realm="kernelgym (password: your token)"'}


@dataclass(frozen=True)
class Principal:
    """Who makes a request."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether it may do what ``role`` may."""
        return self.role in (role, "admin")

    @property
    def scope(self) -> str:
        """Whose evaluations it may touch: its own, or ('') everybody's."""
        return "" if self.role == "admin" else self.name


class Guard:
    """Knows the tokens, as hashes."""

    def __init__(self, tokens: dict[str, Principal], *, anonymous: bool) -> None:
        self._by_hash = {_hash(token): who for token, who in tokens.items()}
        self.anonymous = anonymous

    def identify(self, request: Request, *, basic: bool = False) -> Principal:
        """Who makes this request; ``basic`` also takes a browser's password."""
        header = request.headers.get("authorization", "")
        token = _bearer(header) or (_password(header) if basic else None)
        if token is None and not header and self.anonymous:
            return Principal(_anonymous_name(request), "client")
        who = self._by_hash.get(_hash(token)) if token else None
        if who is None:
            challenge = _BASIC if basic else _CHALLENGE
            raise ProblemError(401, "unauthorized", "a valid token is needed", headers=challenge)
        return who

    def require(self, request: Request, role: Role, *, basic: bool = False) -> Principal:
        """Who makes this request, if they may do what ``role`` may."""
        who = self.identify(request, basic=basic)
        if not who.may(role):
            raise ProblemError(403, "forbidden", f"this needs a token with the role {role}")
        return who


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _bearer(header: str) -> str | None:
    scheme, _, value = header.partition(" ")
    return value.strip() or None if scheme.lower() == "bearer" else None


def _password(header: str) -> str | None:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return decoded.partition(":")[2] or None


def _anonymous_name(request: Request) -> str:
    given = request.headers.get("kernelgym-client", "")
    if given and (len(given) > 64 or not _NAME.match(given)):
        raise ProblemError(400, "invalid_request", "the header Kernelgym-Client is not a name")
    return f"anonymous:{given}" if given else "anonymous"


def read_tokens(path: Path) -> dict[str, Principal]:
    """Tokens of a file that nobody else can read."""
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"cannot read the tokens file {path}: {error.strerror}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"{path} can be read by others", hint=f"chmod 600 {path}")
    tokens: dict[str, Principal] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        token, who = _parse(line, f"{path}, line {number}")
        if token in tokens:
            raise UsageError(f"{path}, line {number}: this token occurs twice")
        tokens[token] = who
    return tokens


def _parse(line: str, where: str) -> tuple[str, Principal]:
    match line.split():
        case [role, name, token] if role in get_args(Role) and _NAME.match(name):
            if len(token) < _SHORTEST_TOKEN:
                raise UsageError(f"{where}: a token needs {_SHORTEST_TOKEN} characters or more")
            return token, Principal(name, role)  # type: ignore[arg-type]  # one of Role's
        case _:
            raise UsageError(
                f"{where}: expected ROLE NAME TOKEN, with ROLE client, worker or admin"
            )


def local_token(state_dir: Path, role: Role) -> str:
    """The token of this machine's own workers or operator, made when there is none."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = state_dir / f"{role}.token"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    token = secrets.token_urlsafe(32)
    with os.fdopen(fd, "w") as file:
        file.write(token)
    return token


def build_guard(tokens_file: Path | None, state_dir: Path) -> Guard:
    """The guard of a server: its tokens file, and this machine's own tokens."""
    roles: tuple[Role, ...] = ("worker", "admin")
    tokens = {local_token(state_dir, role): Principal("local", role) for role in roles}
    if tokens_file is not None:
        tokens |= read_tokens(tokens_file)
    return Guard(tokens, anonymous=tokens_file is None)
