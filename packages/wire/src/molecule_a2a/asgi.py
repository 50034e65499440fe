"""ASGI: its types, and responses that end when the client disconnects."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import aclosing
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

CONNECTION = "molecule.connection"
"""Scope extension of `molecule_a2a.http_server`: the connection, which counts for a verified caller."""


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


def count_connection(scope: Scope, principal: str) -> bool:
    """Count the connection for a verified principal; return False if the principal has too many.

    Other ASGI servers count no connections.
    """
    connection = scope.get("extensions", {}).get(CONNECTION)
    return connection is None or connection.identify(principal)


def is_disconnected(scope: Scope) -> bool:
    """Return True if the client is known to be gone. Other ASGI servers tell only by an event."""
    connection = scope.get("extensions", {}).get(CONNECTION)
    return connection is not None and connection.transport.is_closing()


async def read_body(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the request body, or None once it exceeds the limit. Raises ClientGone."""
    pieces, size = list[bytes](), 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = event.get("body", b"")
        size += len(piece)
        if size > max_bytes:
            return None
        pieces.append(piece)
        if not event.get("more_body", False):
            return piece if len(pieces) == 1 else b"".join(pieces)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        """What is left of the body."""


async def send_response(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a complete response. Its length is added."""
    head = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def send_stream(
    receive: Receive, send: Send, status: int, headers: Headers, chunks: AsyncGenerator[bytes]
) -> bool:
    """Send a response chunk by chunk; return False if the client disconnected before its end.

    A disconnect cancels the generator at once: it may be waiting for something that never comes.
    """
    writer = asyncio.current_task()
    assert writer is not None
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        await wait_for_disconnect(receive)
        is_gone = True
        writer.cancel()

    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    watcher = asyncio.get_running_loop().create_task(watch())
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                if chunk:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        # Uncancel: the cancellation was the watcher's, unless the server cancelled the request as well.
        if not is_gone or writer.uncancel() > 0:
            raise
    finally:
        watcher.cancel()
    return not is_gone
