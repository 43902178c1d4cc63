"""Routes whose bodies go from bytes to types in one step.

FastAPI parses a body with `json` and validates what comes out; for a batch that is most of what a
request costs. Here pydantic reads the bytes itself, and FastAPI's own validation sees finished
types. A body that is invalid takes the long way, so that its errors are worded as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError


class TypedRoute(APIRoute):
    """For routers with one JSON body a route: ``APIRouter(route_class=TypedRoute)``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, given a request that knows its type."""
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler
        field = self.body_field.field_info
        adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field])  # type: ignore[arg-type]

        async def typed(request: Request) -> Response:
            return await handler(_TypedRequest(request, adapter))

        return typed


class _TypedRequest(Request):
    def __init__(self, request: Request, adapter: TypeAdapter[Any]) -> None:
        super().__init__(request.scope, request.receive)
        self._adapter = adapter

    async def json(self) -> Any:
        """The body as its type, else as what `json` makes of it."""
        try:
            return self._adapter.validate_json(await self.body())
        except ValidationError:
            return await super().json()
