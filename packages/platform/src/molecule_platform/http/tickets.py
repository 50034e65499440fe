"""Tickets for streams."""

from molecule_platform.api.calls import Call, Handler, Reply
from molecule_platform.services.tickets import Tickets
from molecule_wire import times


class TicketRoutes:
    """Serves /auth/ticket."""

    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"ticket.create": self.create}

    async def create(self, call: Call) -> Reply:
        """A ticket that opens one stream."""
        ticket, expires_at = await self._tickets.mint(call.principal)
        return Reply({"ticket": ticket, "expires_at": times.format_time(expires_at)}, 201)
