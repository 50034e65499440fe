"""Request and response on a connection: Uvicorn's cycle, mended where it would harm a client."""

from typing import TYPE_CHECKING, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from molecule_a2a.asgi import Event

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


class ResponseCycle(RequestResponseCycle):
    """One request and its response."""

    is_unframed = False
    """True if the end of the connection ends the response, as HTTP/1.0 needs where no length is known."""

    lingers = False
    """True if the connection closes after the response, but not before the client had time to read it."""

    @property
    def is_waiting_for_client(self) -> bool:
        """True if the body is incomplete and the client is free to send."""
        return self.more_body and not self.flow.read_paused and not self.waiting_for_100_continue

    async def send(self, message: "ASGISendEvent") -> None:
        """See `RequestResponseCycle`."""
        event = cast(Event, message)
        if not self.response_started and event["type"] == "http.response.start":
            if self.waiting_for_100_continue:
                # The client may send its body or another request next: nobody can tell which.
                self.keep_alive = False
            has_length = any(name == b"content-length" for name, _ in event.get("headers", ()))
            if self.scope["http_version"] == "1.0" and not has_length:
                self.is_unframed, self.chunked_encoding = True, False
        elif self.is_unframed and event["type"] == "http.response.body":
            if self.flow.write_paused and not self.disconnected:
                await self.flow.drain()
            if not self.disconnected and self.scope["method"] != "HEAD":
                self.transport.write(event.get("body", b""))
            if event.get("more_body", False):
                return
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        if self.more_body and not self.keep_alive and _is_last(event):
            # Uvicorn would close at once, and the reset would take the response from a client that still
            # sends. The connection lingers instead.
            self.keep_alive = self.lingers = True
        await super().send(message)


def _is_last(event: Event) -> bool:
    return event["type"] == "http.response.body" and not event.get("more_body", False)
