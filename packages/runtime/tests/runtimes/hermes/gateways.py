"""Gateways of the tests' own, on real sockets: one with the chat API, one with the plugin's routes."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from molecule_a2a import HttpServer, bind
from molecule_runtime.kit.setup.adapter import AdapterConfig
from molecule_runtime.runtimes.hermes.executor import SECRET_HEADER, HermesAgentProxyExecutor


class Queue:
    """The event queue of a bare server."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    async def enqueue_event(self, event: Any) -> None:
        self.events.append(event)

    @property
    def text(self) -> str:
        """The text of the only event, which is a message."""
        assert len(self.events) == 1
        return "".join(part.text for part in self.events[0].parts)

    @property
    def state(self) -> str:
        """The state that the only event reports; empty for a plain answer."""
        assert len(self.events) == 1
        if "molecule" not in self.events[0].metadata:
            return ""
        return str(self.events[0].metadata["molecule"]["state"])


def context(text: str = "hello", **more: Any) -> SimpleNamespace:
    """A request context with as little as a server may give."""
    metadata = more.pop("metadata", None)
    message = SimpleNamespace(parts=[SimpleNamespace(text=text)], metadata=metadata)
    return SimpleNamespace(message=message, **more)


class ChatGateway:
    """A gateway with the chat API; `answer` says what it answers to the next requests."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.calls: list[SimpleNamespace] = []
        self.paths: list[str] = []
        self.features: dict[str, Any] | None = None
        self.answer: Callable[[SimpleNamespace], Awaitable[Response] | Response] = lambda call: says("hi")
        self.session_messages: dict[str, list[Any]] = {}
        self.closed = asyncio.Event()

    async def chat(self, request: Request) -> Response:
        call = SimpleNamespace(headers=request.headers, body=await request.json(), request=request)
        self.calls.append(call)
        answered = self.answer(call)
        return answered if isinstance(answered, Response) else await answered

    async def capabilities(self, request: Request) -> Response:
        self.paths.append(request.url.path)
        if self.features is None:
            return Response(status_code=404)
        return JSONResponse({"features": self.features})

    async def messages(self, request: Request) -> Response:
        self.paths.append(request.url.path)
        kept = self.session_messages.get(request.url.path.split("/")[3])
        return Response(status_code=404) if kept is None else JSONResponse({"data": kept})

    def stream(self, *events: str | float, headers: dict[str, str] | None = None) -> None:
        """Answer with these events; a number is a pause. `closed` is set when the client goes away."""

        async def pieces() -> AsyncIterator[str]:
            try:
                for event in events:
                    if isinstance(event, float):
                        await asyncio.sleep(event)
                    else:
                        yield f"{event}\n\n"
            except (asyncio.CancelledError, GeneratorExit):
                self.closed.set()
                raise

        self.answer = lambda call: StreamingResponse(
            pieces(), media_type="text/event-stream", headers=headers
        )


def says(text: str | None, headers: dict[str, str] | None = None, **more: Any) -> Response:
    """An answer of the chat API."""
    body = {"choices": [{"message": {"role": "assistant", "content": text}}], **more}
    return JSONResponse(body, headers=headers)


def delta(text: str) -> str:
    """An event of a streamed answer."""
    return "data: " + json.dumps({"choices": [{"delta": {"content": text}}]})


class PluginGateway:
    """A gateway with the plugin: it takes messages; a test replies."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.posts: list[SimpleNamespace] = []
        self.cancelled: list[dict[str, Any]] = []
        self.statuses: list[tuple[int, dict[str, str]]] = []
        self.pause = 0.0
        self.auto: str | None = None
        self.secret = ""
        self.features: list[str] = ["cancel", "final"]
        self._arrived = asyncio.Condition()

    async def inbound(self, request: Request) -> Response:
        post = SimpleNamespace(headers=request.headers, body=await request.json())
        async with self._arrived:
            self.posts.append(post)
            self._arrived.notify_all()
        await asyncio.sleep(self.pause)
        if self.statuses:
            status, headers = self.statuses.pop(0)
            return Response(status_code=status, headers=headers)
        if self.auto is not None:
            await self.reply(post, self.auto)
        return JSONResponse({"ok": True}, status_code=202)

    async def cancel(self, request: Request) -> Response:
        self.cancelled.append(await request.json())
        return JSONResponse({"ok": True, "found": True})

    async def health(self, request: Request) -> Response:
        return JSONResponse({"ok": True, "features": self.features})

    async def arrived(self, count: int = 1) -> SimpleNamespace:
        """The message that came as so-manieth."""
        async with asyncio.timeout(5), self._arrived:
            await self._arrived.wait_for(lambda: len(self.posts) >= count)
        return self.posts[count - 1]

    async def reply(self, post: SimpleNamespace, content: str, **more: Any) -> httpx.Response:
        """Post a reply to the callback of a message."""
        body = {"chat_id": post.body["chat_id"], "content": content, "reply_to": post.body["message_id"]}
        headers = {SECRET_HEADER: self.secret} if self.secret else {}
        async with httpx.AsyncClient(verify=False, trust_env=False) as client:
            return await client.post(post.body["callback_url"], json={**body, **more}, headers=headers)


@asynccontextmanager
async def served(routes: list[Route]) -> AsyncGenerator[int]:
    """Serve routes on a port of this machine."""
    listener, server = bind("127.0.0.1", 0), HttpServer(Starlette(routes=routes))
    await server.start(listener)
    try:
        yield listener.getsockname()[1]
    finally:
        await server.stop(0)


def make_executor(**config: Any) -> HermesAgentProxyExecutor:
    """An executor with the environment as it is now."""
    runtime_config: dict[str, Any] = {"model": "hermes-test", "workspace_id": "ws-1", **config}
    return HermesAgentProxyExecutor(AdapterConfig(**runtime_config))


@asynccontextmanager
async def started(**config: Any) -> AsyncGenerator[HermesAgentProxyExecutor]:
    """An executor that was started, and is stopped."""
    executor = make_executor(**config)
    await executor.start()
    try:
        yield executor
    finally:
        await executor.stop()


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])
