"""Serving until a signal: the HTTP server of `molecule_a2a` around an application."""

import asyncio
import signal
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from molecule_a2a import HttpServer, PortTaken, bind
from molecule_a2a.http_server import new_event_loop

DRAIN_MARGIN_SECONDS = 5.0

__all__ = ["HttpServer", "PortTaken", "bind", "run", "serve_until_signal"]


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a server to its end."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


async def serve_until_signal(app: Any, listener: socket.socket, started: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain: runs end before their connections close."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    await app.start()
    server = HttpServer(app)
    await server.start(listener)
    started()
    await stopping.wait()
    await app.stop()
    await server.stop(DRAIN_MARGIN_SECONDS)
