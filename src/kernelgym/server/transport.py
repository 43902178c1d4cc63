"""What every request passes: a size limit, a log line without bodies, security headers, metrics.

Plain ASGI: it must see bytes before anything parses them.
"""

from __future__ import annotations

import logging
import secrets
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelgym.server.metrics import Metrics
from kernelgym.server.problems import ProblemError, response

log = logging.getLogger("kernelgym.access")
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY.encode()),
]
_DOCS = ("/docs", "/redoc")


class _TooLargeError(Exception):
    pass


class Transport:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int, metrics: Metrics) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await _Exchange(self, scope, receive, send).run()


class _Exchange:
    def __init__(self, outer: Transport, scope: Scope, receive: Receive, send: Send) -> None:
        self.outer, self.scope = outer, scope
        self._receive, self._send = receive, send
        self.seen = 0
        self.status = 0
        self.too_large = False
        self.id = secrets.token_hex(8)

    async def run(self) -> None:
        started = time.perf_counter()
        try:
            if self._declared() > self.outer.max_body_bytes:
                await self._refuse()
            else:
                await self.outer.app(self.scope, self.receive, self.send)
        except _TooLargeError:
            if not self.status:
                await self._refuse()
        finally:
            self._record(time.perf_counter() - started)

    def _declared(self) -> int:
        for name, value in self.scope["headers"]:
            if name == b"content-length":
                return int(value) if value.isdigit() else 0
        return 0

    async def _refuse(self) -> None:
        detail = f"a request may have {self.outer.max_body_bytes} bytes"
        error = ProblemError(413, "too_large", detail, headers={"Connection": "close"})
        self.too_large = False
        await response(error)(self.scope, self._receive, self.send)

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self.seen += len(message.get("body", b""))
            if self.seen > self.outer.max_body_bytes:
                self.too_large = True
                raise _TooLargeError
        return message

    async def send(self, message: Message) -> None:
        if self.too_large:
            # The framework caught our exception and wants to answer something less exact.
            raise _TooLargeError
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message["headers"], (b"x-request-id", self.id.encode())]
            if not self.scope["path"].startswith(_DOCS):
                headers += _HEADERS
            message = {**message, "headers": headers}
        await self._send(message)

    def _record(self, seconds: float) -> None:
        route = getattr(self.scope.get("route"), "path", "unknown")
        method = self.scope["method"]
        method = method if method in ("GET", "POST", "DELETE") else "other"
        self.outer.metrics.requests.labels(method, route, str(self.status)).observe(seconds)
        if log.isEnabledFor(logging.INFO):
            fields = {"request": self.id, "method": method, "route": route, "status": self.status}
            fields |= {"seconds": round(seconds, 4), "bytes": self.seen}
            log.info("request", extra=fields)
