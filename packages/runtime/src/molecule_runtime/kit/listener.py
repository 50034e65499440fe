"""The listening socket: Uvicorn around an ASGI application, with the port known before anybody is told."""

import asyncio
import contextlib
import socket
from collections.abc import Generator
from typing import Any

import uvicorn


class PortTaken(OSError):
    """Somebody else listens there."""


class _Server(uvicorn.Server):
    """Uvicorn without its own signal handlers: the process decides when it stops."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to the process, which may have several listeners."""
        yield


class Listener:
    """One address. `start` returns when connections are accepted; `port` is then the real one."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    def bind(self) -> socket.socket:
        """Take the address. Raises PortTaken."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((self.host, self.port))
        except OSError as problem:
            opened.close()
            raise PortTaken(f"cannot listen on {self.host}:{self.port}: {problem.strerror}") from problem
        self.port = int(opened.getsockname()[1])
        return opened

    async def start(self, opened: socket.socket, app: Any) -> None:
        """Serve an application on the socket."""
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
        try:
            opened.listen(1024)
        except OSError as problem:
            opened.close()
            raise PortTaken(f"cannot listen on {self.host}:{self.port}: {problem.strerror}") from problem
        self._task = asyncio.get_running_loop().create_task(self._server.serve([opened]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise RuntimeError("the server ended before it listened")
            await asyncio.sleep(0.005)

    async def stop(self, seconds: float) -> None:
        """Accept nothing more, and let what is being answered go out for at most so many seconds."""
        if self._task is None or self._server is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._task}, timeout=seconds)
        self._server.force_exit = True
        await asyncio.wait({self._task}, timeout=1.0)
