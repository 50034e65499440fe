"""A fake platform at a loopback address."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from requests.structures import CaseInsensitiveDict

from molecule_agent.a2a_server import door, web
from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.web import Answered, Asked

MOST_BYTES = 64 * 1024 * 1024


@contextmanager
def listening(serve: Callable[[Asked], Answered], clock: FakeClock) -> Generator[str]:
    """Serve requests in threads; gives the URL. On leaving, whatever waits for a message ends."""
    closed = threading.Event()

    def answer(incoming: web.Incoming) -> web.Outgoing:
        # What `serve` raises breaks the connection: that is how a dropped request looks from outside.
        answered = serve(_asked(incoming, closed))
        headers = dict(answered.headers)
        if answered.content and not isinstance(answered.body, bytes):
            headers.setdefault("Content-Type", "application/json")
        return web.Outgoing(answered.status, answered.content, headers)

    server = door.Server("127.0.0.1", 0, answer, MOST_BYTES)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="molecule-fake", daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        closed.set()
        with clock.changed:
            clock.changed.notify_all()
        server.shutdown()
        server.hang_up()
        server.server_close()
        thread.join()


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
