"""HTTP/1.1 connection: Uvicorn's httptools protocol with deadlines, caps and strict framing."""

import asyncio
import math
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from molecule_a2a.asgi import CONNECTION
from molecule_a2a.http_server import framing
from molecule_a2a.http_server.cycle import ResponseCycle
from molecule_a2a.http_server.framing import MAX_HEAD_BYTES, MAX_HEADERS, SINGLE_HEADERS, RequestRefused
from molecule_a2a.http_server.limits import ConnectionTable

MAX_PIPELINED_REQUESTS = 64


class HttpConnection(HttpToolsProtocol):
    """Connection of one client. The table that all connections share holds their limits."""

    # There are thousands of connections, and a dictionary for more than 30 attributes takes 1.6 KB.
    __slots__ = (
        "_active",
        "_chunk_bytes",
        "_closes",
        "_has_progress",
        "_idle_bytes",
        "_ignores_input",
        "_in_body",
        "_in_head",
        "_refusal",
        "_single",
        "_table",
        "_unsent_bytes",
        "_upload_deadline",
        "deadline",
        "owner",
        "write_deadline",
    )

    # Uvicorn declares these more narrowly than it uses them: a connection begins without a request.
    app: Any
    parser: Any
    scope: Any
    cycle: Any

    def __init__(
        self,
        config: Any,
        server_state: ConnectionTable,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.deadline = self.write_deadline = math.inf
        self.owner = ""
        self._table = server_state
        # Uvicorn knows the newest request of a connection; this is the one that is being answered.
        self._active: ResponseCycle | None = None
        self._refusal: RequestRefused | None = None
        self._in_head = self._in_body = self._ignores_input = self._closes = False
        self._has_progress = False
        self._idle_bytes = self._chunk_bytes = 0
        self._upload_deadline = math.inf
        self._unsent_bytes = 0
        self._single: dict[bytes, bytes] = {}

    # Event loop

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self.deadline = self.loop.time() + self._table.deadlines.head
        if not self._table.enter(self, self.client[0] if self.client else ""):
            limit = self._table.max_connections
            text = f"your address has {limit} connections: close some of them first"
            return self._reject(RequestRefused(429, text))
        socket = transport.get_extra_info("socket")
        if socket is not None and not self._table.make_room(socket.fileno()):
            text = "the server has no room for another connection: try again in a moment"
            return self._reject(RequestRefused(503, text))
        self._table.silent[self] = None
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        active, self._active = self._active, None
        super().connection_lost(exc)
        if active is not None and not active.response_complete:
            active.disconnected = True
            active.message_event.set()
        self._table.leave(self)
        self._ignores_input = True
        self.deadline = self.write_deadline = math.inf
        # Break the cycles with the scopes of requests: only the garbage collector would free them.
        self.pipeline.clear()
        self.cycle = self.scope = None

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._ignores_input:
            return
        self._has_progress, self._chunk_bytes = False, len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__
            if self._ignores_input:
                return  # what follows the last request of a connection is not read
            self.refuse(cause if isinstance(cause, RequestRefused) else RequestRefused(400, "not HTTP/1.1"))
        if self._ignores_input or not (self._in_head or self._in_body):
            return
        self._idle_bytes = 0 if self._has_progress else self._idle_bytes + len(data)
        if self._idle_bytes > MAX_HEAD_BYTES:
            self.refuse(
                framing.head_too_large()
                if self._in_head
                else RequestRefused(400, "endless trailers or chunks")
            )
        elif self._in_body and self._has_progress:
            self._await_body()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().pause_writing()
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self.write_deadline = self.loop.time() + self._table.deadlines.write

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.write_deadline = math.inf
        super().resume_writing()

    # Parser

    def on_message_begin(self) -> None:
        """See `HttpToolsProtocol`."""
        if self._ignores_input:
            raise RequestRefused(400, "the connection closes after the request before this one")
        super().on_message_begin()
        self._in_head = True
        if self.cycle is not None and not self._is_responding:
            self.deadline = self.loop.time() + self._table.deadlines.head
        self._single = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """See `HttpToolsProtocol`. Trailers are dropped: a request was authorised without them."""
        if not self._in_head:
            return
        name = name.lower()
        if name in SINGLE_HEADERS:
            if name in self._single:
                raise RequestRefused(400, f"send one {name.decode().title()} header")
            self._single[name] = value
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(self.headers) > MAX_HEADERS:
            raise framing.head_too_large()

    def on_headers_complete(self) -> None:
        """See `HttpToolsProtocol`."""
        self._in_head, self._has_progress = False, True
        version = self.parser.get_http_version()
        if self._idle_bytes + self._chunk_bytes > MAX_HEAD_BYTES:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > MAX_HEAD_BYTES:
                raise framing.head_too_large()
        framing.check_head(version, self._single)
        self._table.silent.pop(self, None)
        scope, wants_upgrade = self.scope, self.parser.should_upgrade()
        method = scope["method"] = self.parser.get_method().decode("ascii")
        scope["http_version"] = version
        if wants_upgrade and self._should_upgrade():
            if self._single.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self._single:
                raise RequestRefused(400, "a WebSocket handshake has no body")
            return
        raw_path, scope["query_string"] = framing.split_target(method, self.url, self._single.get(b"host"))
        path = raw_path.decode("ascii")
        scope["raw_path"] = raw_path
        scope["path"] = unquote(path) if "%" in path else path
        scope["extensions"] = {CONNECTION: self}
        # The scope has all of it, until the response has begun.
        self.headers, self.url, self._single = [], b"", {}
        self._begin_response(
            keep_alive=version == "1.1" and not wants_upgrade and self.parser.should_keep_alive()
        )

    def _begin_response(self, *, keep_alive: bool) -> None:
        cycle = self.cycle = ResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and self.scope["http_version"] == "1.1",
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        self._in_body, self._closes = True, not keep_alive
        if not self._is_responding:
            self._start_asgi_task(cycle, self.app)
            return
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            raise RequestRefused(400, f"more than {MAX_PIPELINED_REQUESTS} requests before a response")
        self.flow.pause_reading()
        self.pipeline.appendleft((cycle, self.app))

    def on_body(self, body: bytes) -> None:
        """See `HttpToolsProtocol`."""
        self._has_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See `HttpToolsProtocol`. The client owes nothing from here on."""
        self._in_body, self._has_progress = False, True
        self.deadline = math.inf
        if self.parser.should_upgrade() and self._should_upgrade():
            return
        self._ignores_input = self._closes
        super().on_message_complete()
        if not self._is_responding:
            self._rest()

    # Responses

    @property
    def _is_responding(self) -> bool:
        return self._active is not None and not self._active.response_complete

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._active = cast(ResponseCycle, cycle)
        if self._in_body and cycle is self.cycle:
            self._upload_deadline = self.loop.time() + self._table.deadlines.upload
            self._await_body()
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """See `HttpToolsProtocol`, which would start a timer for each response here."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._active is not None and self._active.lingers:
            self._linger()
        elif self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._refusal is not None:
            self._send_refusal(self._refusal)
        elif not self._in_body:
            self._rest()

    def _rest(self) -> None:
        """Wait for the next request, the head of which may be here in part."""
        seconds = self._table.deadlines.head if self._in_head else self._table.deadlines.idle
        self.deadline = self.loop.time() + seconds
        self._table.silent[self] = None

    def _await_body(self) -> None:
        self.deadline = min(self.loop.time() + self._table.deadlines.body, self._upload_deadline)

    # Limits

    def identify(self, principal: str) -> bool:
        """Count this connection for a verified principal; return False if the principal has too many."""
        return self._table.identify(self, principal)

    def expire(self, now: float) -> None:
        """A deadline has passed."""
        if self.write_deadline <= now:
            # A slow reader goes on; one that has read nothing in all this time is cut off.
            unsent = self.transport.get_write_buffer_size()
            if unsent >= self._unsent_bytes:
                return self.transport.abort()
            self._unsent_bytes, self.write_deadline = unsent, now + self._table.deadlines.write
        if self.deadline > now:
            return None
        if self._ignores_input:
            return self.transport.abort()
        if not self._in_body:
            return self.close()
        if not self.cycle.response_complete and not self.cycle.is_waiting_for_client:
            self._upload_deadline = now + self._table.deadlines.upload
            return self._await_body()
        return self.refuse(RequestRefused(408, "the body did not arrive in time"))

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()

    def refuse(self, refused: RequestRefused) -> None:
        """Answer in place of the application once earlier requests are answered, then close."""
        self._ignores_input = True
        if self._in_body:
            broken = self.cycle
            if broken.response_complete:
                return self._linger()  # this request has its response already
            broken.disconnected = True
            broken.message_event.set()
            if broken is self._active:
                self._active = None
                if broken.response_started:
                    return self.close()
            elif self.pipeline and self.pipeline[0][0] is broken:
                self.pipeline.popleft()
        if self._is_responding:
            self._refusal = refused
            return None
        return self._send_refusal(refused)

    def _send_refusal(self, refused: RequestRefused) -> None:
        self._refusal = None
        self.transport.write(refused.response(self.server_state.default_headers))
        self._linger()

    def _reject(self, refused: RequestRefused) -> None:
        """Refuse a new connection. It does not linger: there are too many already."""
        self._ignores_input = True
        self.transport.write(refused.response(self.server_state.default_headers))
        self.close()

    def _linger(self) -> None:
        """Close, but not before a client that is still sending had time to read the response."""
        self._ignores_input = True
        if self.transport.is_closing() or not self.transport.can_write_eof():
            return self.close()
        self.transport.write_eof()
        self.flow.resume_reading()
        self.deadline = self.loop.time() + self._table.deadlines.linger
        return None

    # WebSockets

    def _upgrade(self, rest: bytes) -> None:
        """Hand the connection over to a WebSocket; another protocol is not spoken."""
        self._ignores_input = True
        if not self._should_upgrade():
            return None
        if self._is_responding:
            return self.refuse(RequestRefused(400, "a WebSocket needs a connection of its own"))
        if rest:
            return self.refuse(RequestRefused(400, "send nothing before the WebSocket is accepted"))
        self.handle_websocket_upgrade()
        successor: Any = self.transport.get_protocol()
        successor.succeed(self, self.loop.time() + self._table.deadlines.head)
        self.parser = self.scope = None  # see `connection_lost`
        return None
