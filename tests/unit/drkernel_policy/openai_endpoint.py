"""An OpenAI-compatible endpoint over real HTTP, that misbehaves when it is told to.

`Endpoint.plan` decides, for each request, what happens to it; everything that was answered is on
record. It speaks HTTP by hand, because it must be able to break off in the middle of an answer.
"""

import asyncio
import contextlib
import json
from collections import Counter

from drkernel.policy.openai import OpenAIPolicy
from drkernel.policy.settings import LimitSettings, OpenAISettings, PriceSettings
from drkernel.types import Message

ANSWERS = "ok"
PAID_AND_USELESS = ("null_content", "bad_parts")
"""Faults whose replies carry usage."""
FAULTS = (
    "429",
    "500",
    "503",
    "529",
    "reset",
    "cut",
    "half_json",
    "html",
    "no_choices",
    "error_200",
    *PAID_AND_USELESS,
)


class ManualTime:
    """A clock that only moves when somebody sleeps; sleeps at the same time overlap."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        end = self.now + seconds
        await asyncio.sleep(0)
        self.now = max(self.now, end)


class Endpoint:
    """Use as an async context manager; ``url`` is its base."""

    def __init__(self, plan=None):
        self.plan = plan or (lambda prompt, attempt: ANSWERS)
        self.requests = []
        """One entry a request: path, headers, body, attempt, what was done."""
        self.attempts = Counter()
        self.reply = {}
        """Fields that replace those of a good answer."""

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}/v1"
        self.leaving = asyncio.Event()
        self.open = {}
        return self

    async def __aexit__(self, *_):
        self.leaving.set()
        self.server.close()
        for writer in self.open:
            writer.close()
        await asyncio.gather(*self.open.values())
        await self.server.wait_closed()

    def done(self, what):
        return [entry for entry in self.requests if entry["done"] == what]

    async def _serve(self, reader, writer):
        self.open[writer] = asyncio.current_task()
        try:
            while (request := await self._read(reader)) is not None:
                if not await self._answer(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _read(self, reader):
        start = await reader.readline()
        if not start:
            return None
        headers = {}
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return start.decode().split()[1], headers, json.loads(body)

    async def _answer(self, request, writer):
        path, headers, body = request
        key = headers.get("idempotency-key", "")
        self.attempts[key] += 1
        prompt = body["messages"][-1]["content"] if "messages" in body else ""
        what = self.plan(prompt, self.attempts[key])
        entry = {"path": path, "headers": headers, "body": body, "attempt": self.attempts[key]}
        self.requests.append({**entry, "done": what})
        if what == "stall":
            await self.leaving.wait()
            return False
        if what == "reset":
            return False
        status, extra, text = self._made(what, prompt)
        raw = text.encode()
        head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(raw)}", *extra]
        cut = len(raw) // 2 if what == "cut" else len(raw)
        writer.write("\r\n".join([*head, "", ""]).encode() + raw[:cut])
        await writer.drain()
        return what != "cut"

    def _made(self, what, prompt):
        if isinstance(what, tuple):
            return what
        if what == "429":
            return 429, ["Retry-After: 2"], json.dumps({"error": {"message": "slow down"}})
        if what.isdigit():
            return int(what), [], "overloaded"
        if what == "html":
            return 200, [], "<html>gateway</html>"
        if what == "no_choices":
            return 200, [], json.dumps({"choices": []})
        if what == "error_200":
            return 200, [], json.dumps({"error": {"code": 502, "message": "upstream"}})
        answer = self.good(prompt)
        if what == "null_content":
            answer["choices"][0]["message"]["content"] = None
            answer["usage"]["completion_tokens"] = 0
        if what == "bad_parts":
            answer["choices"][0]["message"]["content"] = [{"type": "text", "text": 3}]
        text = json.dumps(answer)
        return 200, [], text[: len(text) // 2] if what == "half_json" else text

    def good(self, prompt):
        """The answer to a prompt: its tokens are the prompt's length, for the sums."""
        message = {"role": "assistant", "content": f"answer to {prompt}"}
        answer = {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10 + len(prompt), "completion_tokens": 100 + len(prompt)},
        }
        return answer | json.loads(json.dumps(self.reply))


ASK = (Message(role="user", content="hello"),)
PRICE = PriceSettings(prompt_usd=1.0, completion_usd=10.0)


def settings(endpoint, **fields):
    limits = fields.pop("limits", LimitSettings())
    return OpenAISettings(base_url=endpoint.url, limits=limits, **fields)


@contextlib.asynccontextmanager
async def policy_at(endpoint, time=None, **fields):
    time = time or ManualTime()
    policy = OpenAIPolicy("m", settings(endpoint, **fields), clock=time, sleep=time.sleep)
    try:
        yield policy
    finally:
        await policy.aclose()
