"""Errors as problem+json (RFC 9457): every error of the API has a stable code, none echoes input.

invalid_request 400   unauthorized 401   forbidden 403   not_found 404   method_not_allowed 405
too_large 413         unsupported_media_type 415         key_conflict 422
queue_full 429        internal 500       broker_unavailable 503          draining 503
"""

from __future__ import annotations

import itertools
import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from kernelgym.api import Problem
from kernelgym.broker.protocol import BrokerUnavailable, KeyConflict, QueueFull

MEDIA_TYPE = "application/problem+json"
RETRY_FULL_S = 5
RETRY_BROKER_S = 1
_LONGEST_LIST = 20
_LIMITS = {
    "queue": "too many evaluations are waiting",
    "client": "this client has too many unfinished evaluations",
    "bytes": "the gym's store is full",
}
_CODES = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
}
log = logging.getLogger("kernelgym.server")


class ProblemError(Exception):
    """Ends a request with a problem."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str = "",
        *,
        index: int | None = None,
        errors: tuple[dict[str, str], ...] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail or code)
        self.status = status
        self.headers = headers
        self.problem = Problem(
            type=f"urn:kernelgym:problem:{code}",
            title=HTTPStatus(status).phrase,
            status=status,
            code=code,
            detail=detail,
            index=index,
            errors=errors,
        )


def not_found(what: str) -> ProblemError:
    """There is no such thing, or it belongs to somebody else."""
    return ProblemError(404, "not_found", f"no such {what}, or its result has expired")


def response(error: ProblemError) -> Response:
    """The error as an answer."""
    content = error.problem.model_dump(exclude_none=True)
    return JSONResponse(content, error.status, headers=error.headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Turn every exception that can leave a route into a problem."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(KeyConflict, _on_conflict)
    app.add_exception_handler(QueueFull, _on_full)
    app.add_exception_handler(BrokerUnavailable, _on_broker)
    app.add_exception_handler(Exception, _on_bug)


async def _on_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return response(error)


async def _on_invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    listed = tuple(
        {"where": ".".join(str(part) for part in one["loc"]), "what": str(one["msg"])}
        for one in found[:_LONGEST_LIST]
    )
    index = next((i for one in found if (i := _item_index(one["loc"])) is not None), None)
    detail = f"{len(found)} invalid field(s)"
    return response(ProblemError(400, "invalid_request", detail, index=index, errors=listed))


def _item_index(location: tuple[int | str, ...]) -> int | None:
    """Item of a batch that a validation error is about."""
    for name, following in itertools.pairwise(location):
        if name in ("items", "tasks") and isinstance(following, int):
            return following
    return None


async def _on_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "http_error")
    headers = dict(error.headers) if error.headers else None
    return response(ProblemError(error.status_code, code, str(error.detail), headers=headers))


async def _on_conflict(_: Request, error: Exception) -> Response:
    assert isinstance(error, KeyConflict)
    return response(ProblemError(422, "key_conflict", str(error), index=error.index))


async def _on_full(_: Request, error: Exception) -> Response:
    assert isinstance(error, QueueFull)
    headers = {"Retry-After": str(RETRY_FULL_S)}
    return response(ProblemError(429, "queue_full", _LIMITS[error.limit], headers=headers))


async def _on_broker(_: Request, error: Exception) -> Response:
    log.warning("broker unavailable", extra={"error": str(error)})
    headers = {"Retry-After": str(RETRY_BROKER_S)}
    detail = "the broker does not answer; what was acknowledged is kept"
    return response(ProblemError(503, "broker_unavailable", detail, headers=headers))


async def _on_bug(_: Request, error: Exception) -> Response:
    # The framework logs the traceback; the client learns nothing about our insides.
    return response(ProblemError(500, "internal", "the server made a mistake; see its log"))
