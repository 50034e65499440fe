"""Messages, as their senders and operators look at them."""

from molecule_platform.api.calls import Call, Reply
from molecule_platform.api.nouns import messages as shapes
from molecule_platform.domain import results
from molecule_platform.services.delivery import Delivery
from molecule_platform.services.directory import Directory


class MessageRoutes:
    """Serves /messages."""

    def __init__(self, delivery: Delivery, directory: Directory) -> None:
        self._delivery = delivery
        self._directory = directory

    async def show(self, call: Call) -> Reply:
        """A message; with a wait, as soon as it has ended."""
        message = await self._delivery.visible(call.principal, call.path["message_id"])
        asked: shapes.AwaitMessage = call.asked
        if message.is_open and asked.wait > 0:
            message = await self._delivery.outcome(message.id, asked.wait)
        mode = await self._directory.delivery_mode(message.target_id)
        return Reply(results.message_row(message, mode))
