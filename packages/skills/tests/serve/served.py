"""A served agent on a real socket of this process, and clients for it."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from hypothesis import settings

from molecule_skill.serve.app import SkillApp, make_app
from molecule_skill.serve.server import HttpServer, bind
from molecule_skill.store import MemoryRunStore
from packages.skills.tests.serve.sample import Sample

STREAMS_CUT = settings().max_examples if settings().max_examples > 100 else 30
"""How many conversations are cut; `make test-long` has a profile with more examples."""


class Served:
    """The address of a served agent, and what a client does with it."""

    def __init__(self, app: SkillApp, port: int) -> None:
        self.app = app
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.AsyncClient(base_url=self.url, timeout=20)

    async def invoke(self, skill: str, **arguments: Any) -> httpx.Response:
        return await self.http.post(f"/invoke/{skill}", json={"arguments": arguments})

    async def rpc(self, method: str, params: dict[str, Any], version: str = "1.0", **headers: str) -> Any:
        sent_headers = {**({"a2a-version": version} if version == "1.0" else {}), **headers}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await self.http.post("/", json=body, headers=sent_headers)).json()

    async def frames(
        self, method: str, path: str, *, limit: int | None = None, **options: Any
    ) -> list[tuple[str | None, Any]]:
        """The frames of a stream with their ids; after `limit` of them the connection is cut."""
        headers = {"accept": "text/event-stream", **options.pop("headers", {})}
        found: list[tuple[str | None, Any]] = []
        async with self.http.stream(method, path, headers=headers, **options) as answer:
            if answer.status_code != 200:
                await answer.aread()
                raise AssertionError(f"{answer.status_code} {answer.text}")
            async for frame in parse(answer.aiter_lines()):
                found.append(frame)
                if limit is not None and len(found) >= limit:
                    break
        return found


async def until(look: Callable[[], Awaitable[bool]], seconds: float = 10.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not await look():  # noqa: ASYNC110 - what it looks at is at the other end of a socket
            await asyncio.sleep(0.01)


async def parse(lines: AsyncIterator[str]) -> AsyncGenerator[tuple[str | None, Any]]:
    """Server-sent events: id and data of each; comments are left out."""
    number: str | None = None
    data: list[str] = []
    async for line in lines:
        if line.startswith("id: "):
            number = line[4:]
        elif line.startswith("data: "):
            data.append(line[6:])
        elif not line and data:
            text = "\n".join(data)
            yield number, text if text == "[DONE]" else json.loads(text)
            number, data = None, []


@asynccontextmanager
async def serving(agent: Any = None, **options: Any) -> AsyncGenerator[Served]:
    """Serve an agent on a free port of loopback."""
    options.setdefault("store", MemoryRunStore())
    settings: dict[str, Any] = {
        "resolver": None,
        "grants": None,
        "sandboxes": None,
        "drain_seconds": 0.2,
        **options,
    }
    app = make_app(agent or Sample(), **settings)
    listener, server = bind("127.0.0.1", 0), HttpServer(app)
    await app.start()
    await server.start(listener)
    served = Served(app, listener.getsockname()[1])
    try:
        yield served
    finally:
        await served.http.aclose()
        await app.stop()
        await server.stop(1.0)
