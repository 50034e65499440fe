"""What a unary message costs the platform while a thousand readers wait for news of other tasks."""

import contextlib
import socket

from benchmarks import figure, gateway, processes

SUBSCRIBERS = 1_000
WORKSPACES = 4
CAPACITY = 500
REQUESTS = 1_500
AGAINST_NONE = 1.2


def measure() -> figure.Figure:
    """Against the same platform that nobody listens to, the two measured in turns."""
    processes.raise_file_limit()
    body = gateway.message("hi", "SendMessage")
    with (
        gateway.running() as quiet,
        gateway.running(1 + WORKSPACES, CAPACITY) as crowded,
        contextlib.ExitStack() as held,
    ):
        for number in range(SUBSCRIBERS):
            held.enter_context(_subscribed(crowded, 1 + number % WORKSPACES))
        costs = gateway.take_turns([crowded.side(body, REQUESTS), quiet.side(body, REQUESTS)])
    name = f"unary with {SUBSCRIBERS:,} idle subscribers / with none"
    return gateway.Ratio(*costs).figure(name, AGAINST_NONE, "requests")


def _subscribed(ours: gateway.Gateway, workspace: int) -> socket.socket:
    """A stream whose first event has come, and then nothing."""
    body = gateway.message("hold", "SendStreamingMessage")
    reader = socket.create_connection(("127.0.0.1", ours.platform.port), timeout=30)
    reader.sendall(ours.request(workspace, body(0)))
    said = b""
    while b"data: " not in said:
        said += reader.recv(65536)
    assert said.startswith(b"HTTP/1.1 200"), said
    return reader


if __name__ == "__main__":
    print(figure.table([measure()]))
