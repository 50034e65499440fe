"""WebSocket connection: Uvicorn's, with a deadline for the handshake and a count."""

import math
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from molecule_a2a.asgi import CONNECTION
from molecule_a2a.http_server.limits import Connection, ConnectionTable

_UNREADABLE = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class WebSocketConnection(WebSocketsSansIOProtocol):
    """WebSocket of one client. It counts like the HTTP connection it continues."""

    def __init__(self, config: Any, server_state: ConnectionTable, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self.deadline = self.write_deadline = math.inf
        self.owner = ""
        self._table = server_state

    def succeed(self, connection: Connection, deadline: float) -> None:
        """Continue an HTTP connection; the handshake has until the deadline."""
        self.deadline = deadline
        self._table.move(connection, self)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self.handshake_initiated and not self.handshake_complete:
            # The client does not wait for the answer to its handshake, so it is no WebSocket client.
            return self.close()
        super().data_received(data)
        if not self.handshake_initiated:
            # Uvicorn does not look whether the parser could read the handshake.
            self.transport.write(b"".join(self.conn.data_to_send()) or _UNREADABLE)
            self.close()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        super().connection_lost(exc)
        self._table.leave(self)

    async def run_asgi(self) -> None:
        """See `WebSocketsSansIOProtocol`."""
        extensions: dict[str, Any] = self.scope["extensions"]  # type: ignore[assignment]
        extensions[CONNECTION] = self
        try:
            await super().run_asgi()
        finally:
            extensions.clear()  # the scope and this object hold each other

    def identify(self, principal: str) -> bool:
        """Count this connection for a verified principal; return False if the principal has too many."""
        return self._table.identify(self, principal)

    def expire(self, now: float) -> None:
        """The deadline of the handshake has passed."""
        self.deadline = math.inf
        if not self.handshake_complete:
            self.close()

    def close(self) -> None:
        """Close the connection without a closing handshake."""
        self.transport.close()
