"""The listening socket: Uvicorn around an application; no other module of this package knows it."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import uvicorn

DRAIN_MARGIN_SECONDS = 5.0


class PortTaken(OSError):
    """Somebody else listens there."""


class _Server(uvicorn.Server):
    """Uvicorn that leaves the signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take no signals."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """Take an address; port 0 takes any free one. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(1024)
    except OSError as problem:
        opened.close()
        sentence = f"cannot listen on {host}:{port}: {problem.strerror}; choose another with --port"
        raise PortTaken(sentence) from problem
    return opened


class Listener:
    """Serves one application on one socket."""

    def __init__(self, app: Any, opened: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=60,
        )
        self._server = _Server(config)
        self._socket = opened
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when connections are accepted."""
        self._task = asyncio.create_task(self._server.serve([self._socket]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise RuntimeError("the server ended before it listened")
            await asyncio.sleep(0.005)

    async def stop(self, seconds: float = 1.0) -> None:
        """Accept nothing more, let answers go out for so long, then cut what is left."""
        if self._task is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._task}, timeout=seconds)
        self._server.force_exit = True
        await asyncio.wait({self._task}, timeout=1.0)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a server to its end, on uvloop where it is installed: a small request then costs a fifth less."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


async def serve_until_signal(app: Any, opened: socket.socket, started: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain: runs end first, and their callers hear of it."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    listener = Listener(app, opened)
    await app.start()
    await listener.start()
    started()
    await stopping.wait()
    await app.stop()
    await listener.stop(DRAIN_MARGIN_SECONDS)
