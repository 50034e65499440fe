"""The asyncio server at its edges: what comes too slowly, and from whom."""

import asyncio
from typing import Any

import httpx

from molecule_a2a import AgentApp
from molecule_wire import JSONObject


def scope(**headers: str) -> dict[str, Any]:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": named,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }


async def asked(app: AgentApp, asgi: dict[str, Any]) -> int:
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def keep(event: Any) -> None:
        sent.append(event)

    async with asyncio.timeout(10):
        await app(asgi, never, keep)
    return int(sent[0]["status"])


async def nothing(_turn: object) -> None:
    return None


async def test_a_body_that_does_not_come_is_given_up() -> None:
    app = AgentApp(nothing, {"name": "a"}, url="http://127.0.0.1/", max_body_seconds=0.05)
    assert await asked(app, scope()) == 408


async def test_a_stranger_is_refused_before_its_body_is_read() -> None:
    app = AgentApp(nothing, {"name": "a"}, url="http://127.0.0.1/", max_body_seconds=60)
    assert await asked(app, scope(x_forwarded_for="10.0.0.1")) == 401


async def test_an_agent_that_does_not_stream_says_so_and_refuses_to() -> None:
    card: JSONObject = {"name": "a", "capabilities": {"streaming": False}}
    app = AgentApp(nothing, card, url="http://127.0.0.1/")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        shown = (await client.get("/.well-known/agent-card.json")).json()
        message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": message}}
        refused = (await client.post("/", json=body)).json()
    assert shown["capabilities"]["streaming"] is False
    assert refused["error"]["code"] == -32004
