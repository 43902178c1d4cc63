"""The OpenAPI document: what FastAPI derives from the routes, and the errors as they really are.

FastAPI promises a 422 of its own shape for every invalid request; ours is a 400 like every other
problem (`kernelgym.server.problems`). Operations that need a token say which way it travels.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from kernelgym.api import Problem
from kernelgym.server.problems import MEDIA_TYPE

_OPEN_PATHS = ("/", "/healthz", "/readyz", "/health")
_FRAMEWORK_SHAPES = ("HTTPValidationError", "ValidationError")


def install(app: FastAPI, *, anonymous: bool) -> None:
    """Complete the document when it is first asked for; ``anonymous``: clients need no token."""
    derive = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(derive(), anonymous)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


def _completed(document: dict[str, Any], anonymous: bool) -> dict[str, Any]:
    components = document.setdefault("components", {})
    shapes = components.setdefault("schemas", {})
    for name in _FRAMEWORK_SHAPES:
        shapes.pop(name, None)
    shapes["Problem"] = Problem.model_json_schema(mode="serialization")
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _describe_errors(operation["responses"])
            if path not in _OPEN_PATHS:
                nobody: list[dict[str, list[str]]] = (
                    [{}] if anonymous and not path.startswith("/v1/workers/") else []
                )
                operation["security"] = [*nobody, {"token": []}]
    return document


def _describe_errors(responses: dict[str, Any]) -> None:
    """Replace what the framework says about invalid requests."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if "HTTPValidationError" in str(responses.get("422", "")):
        del responses["422"]
    responses["4XX"] = {"description": "Refused; `code` says why", "content": content}
    if "503" not in responses:
        responses["503"] = {"description": "Not now; ask again", "content": content}
