"""Tickets: how a browser opens a stream, where it can send no header."""

from datetime import datetime, timedelta

from molecule_platform.domain import credentials
from molecule_platform.domain.credentials import StreamTicket
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage

TICKET_LIVES = timedelta(seconds=60)


class StreamTickets:
    """Makes tickets. `Identity` spends them, and asks again for the credential they were made with."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def mint(self, principal: Principal) -> tuple[str, datetime]:
        """A ticket that opens one stream within a minute, and when that minute is over."""
        if principal.acted_by:
            sentence = "a ticket stands for whoever asks for it: ask without X-Workspace-ID"
            raise ApiError("forbidden", sentence)
        ticket, now = credentials.new_token(), self._clock.now()
        ends = now + TICKET_LIVES
        row = StreamTicket(credentials.digest(ticket), principal.org_id, principal.credential, now, ends)
        await self._storage.write(lambda tx: tx.people.insert_ticket(row))
        return ticket, ends
