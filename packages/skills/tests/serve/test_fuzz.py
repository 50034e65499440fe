"""Requests of no sense: whatever they are, the answer is no 5xx and nothing stays at work."""

import asyncio
import json
import random
from typing import Any

import httpx
import pytest

from packages.skills.tests.serve.served import Served, serving, until

SKILLS = ["shout", "add", "tell", "write", "ask", "form", "nothing", "guarded", "absent", "", "%00", "a/b"]
PATHS = [
    "/",
    "/invoke/{skill}",
    "/invoke/",
    "/runs/{run}",
    "/runs/{run}/events",
    "/runs/{run}/cancel",
    "/answers/{q}",
    "/runs/{run}/artifacts/{skill}",
    "/input-requests/{q}",
    "/message:send",
    "/message:stream",
    "/tasks",
    "/tasks/{run}",
    "/tasks/{run}:cancel",
    "/tasks/{run}:subscribe",
    "/v1/message:send",
    "/v1/tasks/{run}",
    "/extendedAgentCard",
    "/.well-known/agent-card.json",
    "/.well-known/openapi.json",
    "/healthz",
    "/readyz",
    "/mcp",
    "/_dev",
    "/{skill}/tasks",
    "/%2e%2e/%2e%2e",
    "/a" * 200,
]
METHODS = [
    "SendMessage",
    "message/send",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "tasks/get",
    "x",
    3,
]
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "\u0000",
    "é\u2028",
    [],
    {},
    [[[]]],
    {"a": {}},
    "x" * 3000,
    ["run_x"],
]
RAW = [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a":1,"a":2}', b"[" * 3000, b'"\\ud800"', b"NaN", b"{}{}"]


class Fuzzer:
    """Makes requests from a seed; remembers runs that it has seen."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.runs = ["run_x"]

    def request(self) -> dict[str, Any]:
        pick = self._chance.choice
        path = pick(PATHS).format(
            skill=pick(SKILLS), run=pick(self.runs), q=pick(["q_x", "ir_x", *self.runs])
        )
        headers = {
            name: pick(texts)
            for name, texts in {
                "accept": ["text/event-stream", "application/json", "*/*", ""],
                "content-type": ["application/json", "text/plain", "application/a2a+json", ""],
                "a2a-version": ["1.0", "0.3", "9.9", ""],
                "idempotency-key": ["k", "k2", "x" * 300],
                "last-event-id": ["1", "run_x:1", "-1", "x", "999999999999"],
                "range": ["bytes=0-1", "bytes=-", "bytes=9-1", "x"],
                "authorization": ["Bearer x", "Basic", "x"],
                "prefer": ["respond-async", "x"],
                "x-molecule-caller": ["a.b.c", "x"],
                "x-workspace-id": ["w"],
            }.items()
            if self._chance.random() < 0.25
        }
        method = pick(["GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
        return {"method": method, "url": path, "headers": headers, "content": self._body()}

    def _body(self) -> bytes:
        pick = self._chance.choice
        kind = self._chance.random()
        if kind < 0.2:
            return pick(RAW)
        if kind < 0.6:
            names = ["text", "a", "b", "words", "name", "size", "question", "x"]
            arguments = {pick(names): pick([*VALUES, 1, 2, "t"]) for _ in range(self._chance.randrange(4))}
            body = {
                "arguments": arguments,
                "deadline_seconds": 5,
                "answer": pick(VALUES),
                "value": pick(VALUES),
            }
            return self._mutated(body)
        part = pick(
            [
                {"text": "hi"},
                {"data": {"skill": pick(SKILLS), "arguments": {"text": "x"}}},
                {"kind": "text", "text": "x"},
                3,
            ]
        )
        message = {"messageId": "m", "role": pick(["ROLE_USER", "user", 1]), "parts": [part]}
        if self._chance.random() < 0.3:
            message["taskId"] = pick(self.runs)
        params = {"message": message, "id": pick(self.runs), "pageSize": pick(VALUES)}
        return self._mutated(
            pick([{"jsonrpc": "2.0", "id": 1, "method": pick(METHODS), "params": params}, params])
        )

    def _mutated(self, body: dict[str, Any]) -> bytes:
        if self._chance.random() < 0.4:
            body[self._chance.choice([*body, "x"])] = self._chance.choice(VALUES)
        text = json.dumps(body).encode()
        if self._chance.random() < 0.1:
            place = self._chance.randrange(len(text))
            text = text[:place] + bytes([self._chance.randrange(256)]) + text[place + 1 :]
        return text


def _check_own_deadline(request: dict[str, Any], status: int, body: bytes) -> None:
    """A run that nobody answered within the seconds that the request named is over: its outcome is a 504."""
    outcome = json.loads(body)
    assert (status, "run_id" in outcome, "deadline" in outcome["error"]) == (504, True, True), (request, body)


async def fuzz(served: Served, count: int, seed: int) -> None:
    fuzzer = Fuzzer(seed)
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            request = fuzzer.request()
            async with client.stream(**request) as answer:
                if answer.status_code >= 500:
                    _check_own_deadline(request, answer.status_code, await answer.aread())
                    continue
                text = b""
                async for piece in answer.aiter_bytes():
                    text += piece
                    # A stream of a run that asks would wait for an answer.
                    if len(text) > 100 or "event-stream" in answer.headers.get("content-type", ""):
                        break
                if text.startswith(b'{"run_id":"'):
                    fuzzer.runs = [*fuzzer.runs[-5:], text[11:].split(b'"')[0].decode()]

    limits = httpx.Limits(max_connections=16)
    async with httpx.AsyncClient(base_url=served.url, timeout=30, limits=limits) as client:
        await asyncio.gather(*(worker() for _ in range(8)))


async def settle(served: Served) -> None:
    """Nothing is queued or running; what asked a question is answered by cancelling it."""

    async def nothing_at_work() -> bool:
        for record in await served.app.gate.runs(None, limit=1000):
            if record.state == "waiting":
                await served.app.gate.cancel(record.run_id, None)
        states = {record.state.value for record in await served.app.gate.runs(None, limit=1000)}
        return states <= {"succeeded", "failed", "cancelled", "expired"}

    await until(nothing_at_work, 60)
    listed = (await served.rpc("ListTasks", {"status": "TASK_STATE_WORKING"}))["result"]
    assert listed["totalSize"] == 0
    assert (await served.invoke("shout", text="still here")).json()["result"] == "STILL HERE"


async def test_odd_requests_get_no_5xx_and_leave_nothing_at_work() -> None:
    async with serving() as served:
        await fuzz(served, 800, seed=1)
        await settle(served)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_hundred_thousand_odd_requests_get_no_5xx_and_leave_nothing_at_work() -> None:
    async with serving() as served:
        for seed in range(10):
            await fuzz(served, 10_000, seed=seed)
            await settle(served)
