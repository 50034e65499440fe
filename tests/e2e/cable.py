"""A network between a program and the platform that can be cut and mended."""

import contextlib
import socket
import threading


class Cable:
    """Passes bytes on, both ways. When it is cut every connection breaks, and none can be made."""

    def __init__(self, port: int, platform_port: int) -> None:
        self.port = port
        self._platform_port = platform_port
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []

    def mend(self) -> None:
        """Let connections be made."""
        self._listener = listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """Break every connection."""
        if self._listener is None:
            return
        # A thread that waits in accept() keeps the socket open; shutting it down wakes the thread.
        _close(self._listener)
        self._listener = None
        for end in self._open:
            _close(end)
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._platform_port))
        except OSError:  # nobody is at the other end
            return _close(near)
        self._open += [near, far]
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()
        return None


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while some := one.recv(65536):
            other.sendall(some)
    _close(one)
    _close(other)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
