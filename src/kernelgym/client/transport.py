"""Drivers of flows: they do the input and output that `kernelgym.client.calls` describes."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from typing import Any, TypeVar

import httpx

from kernelgym.client.calls import Call, Flow, Pause, Reply
from kernelgym.settings import server_url

T = TypeVar("T")
CONNECT_S = 5.0
ANSWER_S = 30.0


class Transport:
    """Blocking."""

    def __init__(self, server: str | None, token: str | None, name: str | None) -> None:
        self._url = server_url(server)
        self._http = httpx.Client(**_options(self._url, token, name))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def drive(self, flow: Flow[T]) -> T:
        """Run a flow to its value."""
        answer: Reply | None = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as stop:
                value: T = stop.value
                return value
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                answer = None
            else:
                answer = self._send(step)

    def _send(self, call: Call) -> Reply:
        try:
            return _reply(self._http.request(**_arguments(self._url, call)))
        except httpx.TransportError as error:
            return _fault(error)


class AsyncTransport:
    """For asyncio."""

    def __init__(self, server: str | None, token: str | None, name: str | None) -> None:
        self._url = server_url(server)
        self._http = httpx.AsyncClient(**_options(self._url, token, name))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def drive(self, flow: Flow[T]) -> T:
        """Run a flow to its value."""
        answer: Reply | None = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as stop:
                value: T = stop.value
                return value
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                answer = None
            else:
                answer = await self._send(step)

    async def _send(self, call: Call) -> Reply:
        try:
            return _reply(await self._http.request(**_arguments(self._url, call)))
        except httpx.TransportError as error:
            return _fault(error)


def _options(url: str, token: str | None, name: str | None) -> dict[str, Any]:
    headers = {}
    token = token or os.environ.get("KERNELGYM_TOKEN")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if name:
        headers["Kernelgym-Client"] = name
    return {
        "base_url": url,
        "verify": url.startswith("https:"),  # loading certificates takes 30 ms
        "headers": headers,
        "timeout": httpx.Timeout(ANSWER_S, connect=CONNECT_S),
        "limits": httpx.Limits(max_connections=64, max_keepalive_connections=16),
        "trust_env": False,
    }


@functools.lru_cache(maxsize=256)
def _address(url: str, path: str) -> httpx.URL:
    """Parsed once: a worker asks for the same three paths all day."""
    return httpx.URL(url + path)


def _arguments(url: str, call: Call) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": _address(url, call.path),
        "content": call.body,
        "params": call.params or None,  # an empty mapping has the address parsed again
        "headers": call.headers,
        "timeout": httpx.Timeout(ANSWER_S + call.extra_s, connect=CONNECT_S),
    }


def _reply(response: httpx.Response) -> Reply:
    return Reply(response.status_code, response.content, response.headers)


def _fault(error: httpx.TransportError) -> Reply:
    return Reply(0, fault=str(error) or type(error).__name__)
