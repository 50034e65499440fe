"""A fake platform at a loopback address."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace

from requests.structures import CaseInsensitiveDict

from molecule_agent.a2a_server import http_messages, http_server
from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.http_messages import PlatformRequest, PlatformResponse
from molecule_wire.a2a.server.bindings import Response

MAX_BYTES = 64 * 1024 * 1024


@contextmanager
def listening(serve: Callable[[PlatformRequest], PlatformResponse], clock: FakeClock) -> Generator[str]:
    """Serve requests in threads; gives the URL. On leaving, whatever waits for a message ends."""
    closed = threading.Event()

    server = http_server.AgentHttpServer("127.0.0.1", 0, _FakeApp(serve, closed), MAX_BYTES)
    server.start("molecule-fake")
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        closed.set()
        with clock.changed:
            clock.changed.notify_all()
        server.stop(0)


class _FakeApp:
    """Every request is taken."""

    def __init__(self, serve: Callable[[PlatformRequest], PlatformResponse], closed: threading.Event) -> None:
        self._serve = serve
        self._closed = closed

    def open(self, head: http_messages.ServerRequest) -> http_messages.AcceptedRequest:
        """See `Application`."""
        return http_messages.AcceptedRequest(head, head.path)

    def answer(self, opened: http_messages.AcceptedRequest, body: bytes) -> Response:
        """See `Application`."""
        # What `serve` raises breaks the connection: that is how a dropped request looks from outside.
        answered = self._serve(_asked(replace(opened.request, body=body), self._closed))
        named = {name.lower() for name in answered.headers}
        is_json = answered.content and not isinstance(answered.body, bytes) and "content-type" not in named
        media = "application/json" if is_json else ""
        return Response(answered.status, answered.content, media, tuple(answered.headers.items()))

    def tick(self) -> None:
        """Nothing is overdue here."""


def _asked(incoming: http_messages.ServerRequest, closed: threading.Event) -> PlatformRequest:
    return PlatformRequest(
        method=incoming.method,
        path=incoming.path,
        base=f"http://{incoming.header('Host')}",
        query=incoming.query,
        headers=CaseInsensitiveDict(incoming.headers),
        body=incoming.body,
        left=closed.is_set,
    )
