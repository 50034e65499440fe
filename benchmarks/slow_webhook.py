"""How long the events of a stream take while a webhook that needs a second for each call is told of them."""

import http.server
import json
import re
import socket
import statistics
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from benchmarks import echo_agent, figure, gateway, load

TURNS = 25
EVENTS = 60
WEBHOOK_SECONDS = 1.0
AGAINST_NONE = 1.1
_TOLD_AT = re.compile(echo_agent.TOLD_AT.encode() + rb"(\d+)")


def measure() -> figure.Figure:
    """Against the same stream that no webhook is told of, the two measured in turns."""
    with gateway.running(MOLECULE_PUSH_ALLOW_PRIVATE="true") as ours, _slow_webhook() as url:
        for warm in (url, None):
            _delay(ours, warm)
        pairs = [(_delay(ours, url), _delay(ours, None)) for _ in range(TURNS)]
    # Of each pair, since what slows the machine for a while slows both.
    ratio = statistics.median(told / untold for told, untold in pairs)
    told, untold = (statistics.median(side) for side in zip(*pairs, strict=True))
    limits = (
        f"median of {TURNS} turns x {EVENTS} events, 10 ms apart, from the agent to the reader, SQLite; "
        f"the webhook takes {WEBHOOK_SECONDS:g} s; {told * 1e6:.0f} us against {untold * 1e6:.0f} us"
    )
    name = "delay of an event with a slow webhook / with none"
    return figure.Figure(name, ratio, "x", figure.Ceiling(AGAINST_NONE), limits)


def _delay(ours: gateway.Gateway, webhook: str | None) -> float:
    """How long an event of a stream takes from the agent to its reader, in the middle."""
    request = json.loads(gateway.message(f"{EVENTS} slowly", "SendStreamingMessage")(0))
    if webhook is not None:
        request["params"]["configuration"] = {"taskPushNotificationConfig": {"url": webhook}}
    delays: list[float] = []
    with socket.create_connection(("127.0.0.1", ours.platform.port), timeout=30) as reader:
        reader.sendall(ours.request(0, json.dumps(request).encode()))
        end = b""
        while not end.endswith(load.CHUNKED_END):
            said = reader.recv(65536)
            now = time.monotonic_ns()
            delays += [(now - int(at)) / 1e9 for at in _TOLD_AT.findall(said)]
            end = (end + said)[-len(load.CHUNKED_END) :]
    assert len(delays) == EVENTS - 2, f"{len(delays)} events came"
    return statistics.median(delays)


@contextmanager
def _slow_webhook() -> Generator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(WEBHOOK_SECONDS)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


if __name__ == "__main__":
    print(figure.table([measure()]))
