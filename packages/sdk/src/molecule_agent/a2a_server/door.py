"""The sockets: the standard library's HTTP server, with limits."""

import logging
import re
import selectors
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from molecule_agent.a2a_server import app, web
from molecule_agent.a2a_server.runs import Answer
from molecule_wire.a2a.server.bindings import EVENT_STREAM, STREAM_HEADERS, Response, refusal

IDLE_SECONDS = 60
MAX_CONNECTIONS = 256
MAX_HEADERS, MAX_HEADER_BYTES = 100, 65536
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
# Two readers could take different ones of these for the right one.
_ONCE = frozenset({"authorization", "content-length", "host", "transfer-encoding"})

log = logging.getLogger("molecule_agent")


class Server(ThreadingHTTPServer):
    """One listening socket; what it answers belongs to the instance, so that two never mix."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, answer: Callable[[web.Incoming], Answer], max_body_bytes: int
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.answer = answer
        self.max_body_bytes = max_body_bytes
        # Connections whose request is being answered, and those that may ask, the longest quiet one first.
        self._busy: set[socket.socket] = set()
        self._resting: dict[socket.socket, None] = {}
        self._changed = threading.Condition()
        super().__init__((host, port), Connection)

    def start(self, name: str) -> None:
        """Serve in a thread of its own."""
        threading.Thread(target=self.serve_forever, args=(0.05,), name=name, daemon=True).start()

    def stop(self, seconds: float) -> None:
        """Take nothing more, and end every connection; what is being answered has so many seconds left."""
        self.shutdown()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, seconds)
            left = [*self._busy, *self._resting]
        for connection in left:
            _hang_up(connection)
        self.server_close()

    def server_bind(self) -> None:
        """Bind without the original's look-up of the host's full name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a connection, in place of one that rests if there are too many; else close it."""
        with self._changed:
            if len(self._busy) + len(self._resting) >= MAX_CONNECTIONS and not self._make_room():
                return False
            self._resting[request] = None
            return True

    def _make_room(self) -> bool:
        for connection in self._resting:
            if not _asks(connection):
                del self._resting[connection]
                _hang_up(connection)
                return True
        return False

    @contextmanager
    def answering(self, connection: socket.socket) -> Generator[None]:
        """Answer a request of a connection inside this; a stop does not cut the answer off."""
        with self._changed:
            self._resting.pop(connection, None)
            self._busy.add(connection)
        try:
            yield
        finally:
            with self._changed:
                self._busy.discard(connection)
                self._resting[connection] = None
                self._changed.notify_all()

    def shutdown_request(self, request: Any) -> None:
        """Close one connection."""
        with self._changed:
            self._resting.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is no news; the original would print a traceback."""
        log.debug("a connection from %s broke", client_address, exc_info=True)


class Connection(BaseHTTPRequestHandler):
    """Reads requests from one connection and writes the answers."""

    protocol_version = "HTTP/1.1"
    server_version = "molecule-ai-sdk"
    sys_version = ""
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer go out in one write
    raw_requestline: bytes

    def parse_request(self) -> bool:
        """Read the head of a request. The original's reader of mail took a fifth of a whole answer."""
        self.command, self.request_version, self.close_connection = "", "HTTP/1.1", True
        self.requestline = self.raw_requestline.decode("iso-8859-1").rstrip("\r\n")
        words = self.requestline.split(" ")
        fields = self._fields() if len(words) == 3 and words[2] in ("HTTP/1.1", "HTTP/1.0") else None
        if fields is None:
            self.send_error(400)
            return False
        self.command, self.path, self.request_version = words
        self.fields = fields
        wish = fields.get("connection", "").lower()
        self.close_connection = wish == "close" or (words[2] == "HTTP/1.0" and wish != "keep-alive")
        if fields.get("expect", "").lower() == "100-continue" and words[2] == "HTTP/1.1":
            self.handle_expect_100()
            self.wfile.flush()
        return True

    def _fields(self) -> dict[str, str] | None:
        """The headers by their lower-case names; None when they are not as HTTP has them."""
        fields: dict[str, str] = {}
        for _ in range(MAX_HEADERS):
            line = self.rfile.readline(MAX_HEADER_BYTES)
            if line in (b"\r\n", b"\n"):
                return fields
            name, colon, said = line.decode("iso-8859-1").partition(":")
            name = name.lower()
            if not colon or not line.endswith(b"\n") or not _NAME.fullmatch(name):
                return None
            if name in fields and name in _ONCE:
                return None
            said = said.strip(" \t\r\n")
            fields[name] = f"{fields[name]}, {said}" if name in fields else said
        return None

    def do_GET(self) -> None:
        """Answer whatever method it is; the app knows which it takes."""
        with cast(Server, self.server).answering(self.connection):
            self._serve()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Log as everything else does."""
        log.debug(format, *args)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is not HTTP; the original would echo it in a page of HTML."""
        self._refuse(refusal(code, "bad request"))

    def _serve(self) -> None:
        server = cast(Server, self.server)
        length = self.fields.get("content-length", "0")
        if "transfer-encoding" in self.fields or not (length.isascii() and length.isdigit()):
            return self._refuse(refusal(411, "send a Content-Length"))
        size = int(length)
        if size > server.max_body_bytes:
            limit = server.max_body_bytes
            sentence = f"the body is larger than {limit} bytes"
            return self._refuse(refusal(413, sentence, "payload-too-large", limit_bytes=limit))
        body = self.rfile.read(size)
        if len(body) < size:
            self.close_connection = True
            return None
        answer = server.answer(self._incoming(body))
        return self._write(answer) if isinstance(answer, Response) else self._write_stream(answer)

    def _incoming(self, body: bytes) -> web.Incoming:
        parts = urlsplit(self.path)
        return web.Incoming(
            method=self.command,
            path=app.plain(parts.path),
            query=dict(parse_qsl(parts.query)),
            headers=self.fields,
            body=body,
            peer_address=str(self.client_address[0]),
        )

    def _refuse(self, response: Response) -> None:
        """Answer before the body was read: what follows on the connection is no request."""
        self.close_connection = True
        self._write(response)

    def _write(self, response: Response) -> None:
        headers = (*response.headers, ("content-length", str(len(response.body))))
        self._write_head(response.status, response.media, headers)
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def _write_head(self, status: int, media: str, headers: Iterable[tuple[str, str]]) -> None:
        self.send_response(status)
        closing = [("connection", "close")] if self.close_connection else []
        typed = [("content-type", media)] if media else []
        for name, value in (*typed, *headers, *closing, ("x-content-type-options", "nosniff")):
            self.send_header(name, value)
        self.end_headers()

    def _write_stream(self, frames: Iterator[bytes]) -> None:
        """Write an event stream; whoever hangs up ends only this."""
        chunked = self.request_version != "HTTP/1.0"
        self.close_connection = self.close_connection or not chunked
        framing = [("transfer-encoding", "chunked")] if chunked else []
        self._write_head(200, EVENT_STREAM, (*STREAM_HEADERS, *framing))
        for piece in frames:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            self.wfile.flush()
        if chunked:
            self.wfile.write(b"0\r\n\r\n")


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        log.debug("a connection was already gone")


def _asks(connection: socket.socket) -> bool:
    """Whether something has come that nobody has read yet; the end is not something."""
    with selectors.DefaultSelector() as look:
        look.register(connection, selectors.EVENT_READ)
        ready = look.select(0)
    try:
        return bool(ready and connection.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
