"""Tickets for streams."""

from molecule_platform.services.identity.stream_tickets import StreamTickets
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_wire import times


class StreamTicketHandlers:
    """Serves /auth/ticket."""

    def __init__(self, tickets: StreamTickets) -> None:
        self._tickets = tickets

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"ticket.create": self.create}

    async def create(self, call: Call) -> Response:
        """A ticket that opens one stream."""
        ticket, expires_at = await self._tickets.mint(call.principal)
        return Response({"ticket": ticket, "expires_at": times.format_time(expires_at)}, 201)
