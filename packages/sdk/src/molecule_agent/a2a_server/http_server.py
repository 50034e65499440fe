"""The sockets: the standard library's HTTP server with a thread for each connection, and with limits."""

import email.utils
import http
import logging
import re
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, urlsplit

from molecule_agent.a2a_server import http_messages
from molecule_wire.a2a.server.bindings import EVENT_STREAM, STREAM_HEADERS, AgentBusy, Response, refusal

IDLE_SECONDS, REQUEST_SECONDS = 60, 30
MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS = 256, 128
MAX_HEADERS, MAX_HEADER_BYTES = 100, 65536
SMALL_BODY_BYTES, MAX_BODIES_BYTES = 65536, 64 * 1024 * 1024
TICK_SECONDS = 0.05
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
# Two readers could take different ones of these for the right one.
_ONCE = frozenset({"authorization", "content-length", "host", "transfer-encoding", "x-molecule-caller"})
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus
}

log = logging.getLogger(__name__)


class Application(Protocol):
    """Who answers: `open` sees the head of a request, and refuses it before its body is read."""

    def open(self, head: http_messages.ServerRequest) -> http_messages.AcceptedRequest | Response:
        """Whether the request is taken; or its whole answer."""
        ...

    def answer(self, opened: http_messages.AcceptedRequest, body: bytes) -> Response | Iterator[bytes]:
        """Answer a request that is whole."""
        ...

    def tick(self) -> None:
        """Called twenty times a second."""
        ...


class AgentHttpServer(ThreadingHTTPServer):
    """One listening socket; what it answers belongs to the instance, so that two never mix."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, app: Application, max_body_bytes: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.app = app
        self.max_body_bytes = max_body_bytes
        # Connections whose request is being answered, and those that may ask, the longest quiet one first.
        self._busy: set[socket.socket] = set()
        self._resting: dict[socket.socket, None] = {}
        self._asking: dict[socket.socket, float] = {}
        """Since when a connection is being read; none may take longer than so many seconds for a request."""
        self._addresses: dict[socket.socket, str] = {}
        self._per_address: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._body_bytes = 0
        self._dated, self._date_line = 0, b""
        super().__init__((host, port), AgentConnection)

    def start(self, name: str) -> None:
        """Serve in a thread of its own."""
        threading.Thread(target=self.serve_forever, args=(TICK_SECONDS,), name=name, daemon=True).start()

    def stop(self, seconds: float) -> None:
        """Take nothing more, and end every connection; what is being answered has so many seconds left."""
        self.shutdown()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, seconds)
            left = [*self._busy, *self._resting]
        for connection in left:
            hang_up(connection)
        self.server_close()

    def server_bind(self) -> None:
        """Bind without the original's look-up of the host's full name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def service_actions(self) -> None:
        """Between two looks at the listening socket: end what takes too long to ask."""
        try:
            self.app.tick()
        except Exception:
            log.exception("the turns whose time is over could not be ended")
        latest = time.monotonic() - REQUEST_SECONDS
        with self._changed:
            slow = [connection for connection, since in self._asking.items() if since < latest]
        for connection in slow:
            hang_up(connection)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a connection, in place of one that rests if there are too many; else close it."""
        address = str(client_address[0])
        with self._changed:
            if self._per_address[address] >= MAX_CONNECTIONS_PER_ADDRESS and not self._make_room(address):
                return False
            if len(self._busy) + len(self._resting) >= MAX_CONNECTIONS and not self._make_room(None):
                return False
            self._resting[request] = None
            self._addresses[request] = address
            self._per_address[address] += 1
            return True

    def _make_room(self, address: str | None) -> bool:
        for connection in self._resting:
            if (address is None or self._addresses[connection] == address) and not _asks(connection):
                del self._resting[connection]
                hang_up(connection)
                return True
        return False

    @contextmanager
    def answering(self, connection: socket.socket) -> Generator[None]:
        """Read and answer a request of a connection inside this; a stop does not cut the answer off."""
        with self._changed:
            self._resting.pop(connection, None)
            self._busy.add(connection)
        try:
            yield
        finally:
            with self._changed:
                self._asking.pop(connection, None)
                self._busy.discard(connection)
                self._resting[connection] = None
                if not self._busy:
                    self._changed.notify_all()

    def begin_request(self, connection: socket.socket) -> None:
        """The first line of a request has come: the rest of it may take so many seconds."""
        with self._changed:
            self._asking[connection] = time.monotonic()

    def end_request(self, connection: socket.socket) -> None:
        """The request is whole."""
        with self._changed:
            self._asking.pop(connection, None)

    @contextmanager
    def holding(self, size: int) -> Generator[None]:
        """Hold a body of that size in memory. Raises AgentBusy when too much is held already."""
        if size <= SMALL_BODY_BYTES:
            yield
            return
        with self._changed:
            if self._body_bytes + size > MAX_BODIES_BYTES:
                raise AgentBusy(f"bodies of more than {MAX_BODIES_BYTES} bytes are being read already")
            self._body_bytes += size
        try:
            yield
        finally:
            with self._changed:
                self._body_bytes -= size

    def date_line(self) -> bytes:
        """The header `date` of now."""
        now = int(time.time())
        if now != self._dated:
            self._date_line = f"date: {email.utils.formatdate(now, usegmt=True)}\r\n".encode()
            self._dated = now
        return self._date_line

    def shutdown_request(self, request: Any) -> None:
        """Close one connection."""
        with self._changed:
            self._resting.pop(request, None)
            self._asking.pop(request, None)
            address = self._addresses.pop(request, None)
            if address is not None:
                self._per_address[address] -= 1
            self._per_address += Counter()  # without those that have none left
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is no news; the original would print a traceback."""
        log.debug("a connection from %s broke", client_address, exc_info=True)


class Reply:
    """The one answer to a request: whoever gives it first, the thread that reads it or another."""

    def __init__(self, connection: "AgentConnection") -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def give(self, response: Response) -> None:
        """Answer while the thread of the connection is still at work on the request; then close it."""
        if self._lock.acquire(blocking=False):
            self._connection.close_connection = True
            try:
                self._connection.write_response(response)
                self._connection.wfile.flush()
            except OSError:
                log.debug("nobody reads the answer any more")
            hang_up(self._connection.connection)

    def take(self) -> bool:
        """Whether the thread of the connection may answer now."""
        return self._lock.acquire(blocking=False)


class AgentConnection(BaseHTTPRequestHandler):
    """Reads requests from one connection and writes the answers."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer go out in one write
    raw_requestline: bytes

    def parse_request(self) -> bool:
        """Read the head of a request. The original's reader of mail took a fifth of a whole answer."""
        self.command, self.request_version, self.close_connection = "", "HTTP/1.1", True
        cast(AgentHttpServer, self.server).begin_request(self.connection)
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
        return True

    def _fields(self) -> dict[str, str] | None:
        """The headers by their lower-case names; None when they are not as HTTP has them."""
        fields: dict[str, str] = {}
        for _ in range(MAX_HEADERS):
            line = self.rfile.readline(MAX_HEADER_BYTES)
            if line in (b"\r\n", b"\n"):
                return fields
            name, colon, value = line.decode("iso-8859-1").partition(":")
            name = name.lower()
            if not colon or not line.endswith(b"\n") or not _NAME.fullmatch(name):
                return None
            if name in fields and name in _ONCE:
                return None
            value = value.strip(" \t\r\n")
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        return None

    def do_GET(self) -> None:
        """Answer whatever method it is; the app knows which it takes."""
        server = cast(AgentHttpServer, self.server)
        with server.answering(self.connection):
            length = self.fields.get("content-length", "0")
            if "transfer-encoding" in self.fields or not (length.isascii() and length.isdigit()):
                return self._refuse(refusal(411, "send a Content-Length"))
            try:
                with server.holding(int(length)):
                    return self._serve(server, int(length))
            except AgentBusy as busy:
                return self._refuse(busy.response)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Log as everything else does."""
        log.debug(format, *args)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is not HTTP; the original would echo it in a page of HTML."""
        self._refuse(refusal(code, "bad request"))

    def _serve(self, server: AgentHttpServer, size: int) -> None:
        if size > server.max_body_bytes:
            limit = server.max_body_bytes
            sentence = f"the body is larger than {limit} bytes"
            return self._refuse(refusal(413, sentence, "payload-too-large", limit_bytes=limit))
        reply = Reply(self)
        opened = server.app.open(self._head(reply))
        if isinstance(opened, Response) and size > SMALL_BODY_BYTES:
            return self._refuse(opened)
        if self.fields.get("expect", "").lower() == "100-continue" and self.request_version == "HTTP/1.1":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.wfile.flush()
        body = self.rfile.read(size) if size else b""
        if len(body) < size:
            self.close_connection = True
            return None
        server.end_request(self.connection)
        answer = opened if isinstance(opened, Response) else server.app.answer(opened, body)
        if not reply.take():
            return None
        return self.write_response(answer) if isinstance(answer, Response) else self._write_stream(answer)

    def _head(self, reply: Reply) -> http_messages.ServerRequest:
        path, query = self.path, dict[str, str]()
        if "?" in path or not path.startswith("/") or "#" in path:
            parts = urlsplit(path)
            path, query = parts.path, dict(parse_qsl(parts.query))
        return http_messages.ServerRequest(
            method=self.command,
            path=http_messages.plain(path),
            query=query,
            headers=self.fields,
            peer_address=str(self.client_address[0]),
            answer_early=reply.give,
        )

    def _refuse(self, response: Response) -> None:
        """Answer before the body was read: what follows on the connection is no request."""
        self.close_connection = True
        self.write_response(response)

    def write_response(self, response: Response) -> None:
        """Write a whole answer."""
        headers = (*response.headers, ("content-length", str(len(response.body))))
        head = self._head_lines(response.status, response.media, headers)
        self.wfile.write(head if self.command == "HEAD" else head + response.body)

    def _head_lines(self, status: int, media: str, headers: Iterable[tuple[str, str]]) -> bytes:
        lines = [f"{name}: {value}\r\n" for name, value in headers]
        if media:
            lines.append(f"content-type: {media}\r\n")
        if self.close_connection:
            lines.append("connection: close\r\n")
        lines.append("server: molecule-ai-sdk\r\nx-content-type-options: nosniff\r\n\r\n")
        date = cast(AgentHttpServer, self.server).date_line()
        return _STATUS_LINES[status] + date + "".join(lines).encode("iso-8859-1")

    def _write_stream(self, frames: Iterator[bytes]) -> None:
        """Write an event stream; whoever hangs up ends only this."""
        chunked = self.request_version != "HTTP/1.0"
        self.close_connection = self.close_connection or not chunked
        framing = [("transfer-encoding", "chunked")] if chunked else []
        self.wfile.write(self._head_lines(200, EVENT_STREAM, (*STREAM_HEADERS, *framing)))
        for piece in frames:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            self.wfile.flush()
        if chunked:
            self.wfile.write(b"0\r\n\r\n")


def hang_up(connection: socket.socket) -> None:
    """End a connection from another thread than its own."""
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
