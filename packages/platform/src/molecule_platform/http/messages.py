"""Messages, as their senders and operators look at them."""

from molecule_platform.api.calls import Call, Reply
from molecule_platform.domain import results
from molecule_platform.services.delivery import Delivery
from molecule_platform.services.directory import Directory

WAIT_MOST_SECONDS = 60.0


class MessageRoutes:
    """Serves /messages."""

    def __init__(self, delivery: Delivery, directory: Directory) -> None:
        self._delivery = delivery
        self._directory = directory

    async def show(self, call: Call) -> Reply:
        """A message; with a wait, as soon as it has ended."""
        message = await self._delivery.visible(call.principal, call.path["message_id"])
        wait = call.number("wait", 0, 0, WAIT_MOST_SECONDS)
        if message.is_open and wait > 0:
            message = await self._delivery.outcome(message.id, wait)
        mode = await self._directory.delivery_mode(message.target_id)
        return Reply(results.message_row(message, mode))
