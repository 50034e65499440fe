"""A fake platform at a loopback address."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from requests.structures import CaseInsensitiveDict

from molecule_agent.a2a_server import door, web
from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.web import Answered, Asked
from molecule_wire.a2a.server.bindings import Response

MOST_BYTES = 64 * 1024 * 1024


@contextmanager
def listening(serve: Callable[[Asked], Answered], clock: FakeClock) -> Generator[str]:
    """Serve requests in threads; gives the URL. On leaving, whatever waits for a message ends."""
    closed = threading.Event()

    def answer(incoming: web.Incoming) -> Response:
        # What `serve` raises breaks the connection: that is how a dropped request looks from outside.
        answered = serve(_asked(incoming, closed))
        named = {name.lower() for name in answered.headers}
        is_json = answered.content and not isinstance(answered.body, bytes) and "content-type" not in named
        media = "application/json" if is_json else ""
        return Response(answered.status, answered.content, media, tuple(answered.headers.items()))

    server = door.Server("127.0.0.1", 0, answer, MOST_BYTES)
    server.start("molecule-fake")
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        closed.set()
        with clock.changed:
            clock.changed.notify_all()
        server.stop(0)


def _asked(incoming: web.Incoming, closed: threading.Event) -> Asked:
    return Asked(
        method=incoming.method,
        path=incoming.path,
        base=f"http://{incoming.header('Host')}",
        query=incoming.query,
        headers=CaseInsensitiveDict(incoming.headers),
        body=incoming.body,
        left=closed.is_set,
    )
