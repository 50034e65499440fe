"""Messages, as their senders and operators look at them."""

from datetime import datetime
from typing import Protocol

from molecule_platform.domain import results
from molecule_platform.domain.messages import STATUSES, Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import invalid
from molecule_platform.ports.mailbox import MailFilter
from molecule_platform.services.messaging.messages.message_queries import MessageQueries
from molecule_platform.services.messaging.messages.message_service import MessageService
from molecule_platform.services.messaging.messages.message_trees import MessageTrees
from molecule_platform.services.workspaces.directory import Directory
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.paging import next_cursor
from molecule_platform.web.pipeline.query_parser import names
from molecule_platform.web.routes import messages_schemas as shapes
from molecule_wire import times

MAX_REASON_LENGTH = 1000


class Cancels(Protocol):
    """Somebody who calls messages off."""

    async def cancel_message(self, principal: Principal, message_id: str, reason: str | None) -> Message:
        """End the message for whoever may; raises 404, 403 or 409."""
        ...


class MessageHandlers:
    """Serves /messages and /workspaces/{id}/messages."""

    def __init__(
        self,
        delivery: MessageService,
        directory: Directory,
        messages: MessageQueries,
        trees: MessageTrees,
        cancellation: Cancels,
    ) -> None:
        self._delivery = delivery
        self._directory = directory
        self._messages = messages
        self._trees = trees
        self._cancellation = cancellation

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "message.show": self.show,
            "message.tree": self.tree,
            "message.list": self.listing,
            "message.cancel": self.cancel,
        }

    async def tree(self, call: Call) -> Response:
        """Who asked whom."""
        asked: shapes.ShowTree = call.query_params
        return Response(await self._trees.tree(call.principal, call.path["message_id"], asked.limit))

    async def show(self, call: Call) -> Response:
        """A message; with a wait, as soon as it has ended."""
        message = await self._delivery.visible(call.principal, call.path["message_id"])
        asked: shapes.AwaitMessage = call.query_params
        if message.is_open and asked.wait > 0:
            message = await self._delivery.outcome(message.id, asked.wait)
        row = await self._row(message)
        if asked.include == "history":
            row |= {"history": await self._messages.history(call.principal, message)}
        return Response(row)

    async def listing(self, call: Call) -> Response:
        """What a workspace received and sent, newest first."""
        asked: shapes.ListMessages = call.query_params
        wanted = MailFilter(
            call.workspace.id,
            asked.direction,
            _statuses(asked.status),
            None if asked.peer_id is None else asked.peer_id.lower(),
            asked.context_id,
            asked.delegation_id,
            _time(asked.since),
        )
        rows, cursor = await self._messages.page(wanted, asked.limit, asked.cursor)
        return Response({"messages": rows, "next_cursor": cursor}, headers=next_cursor(cursor))

    async def cancel(self, call: Call) -> Response:
        """Call a message off."""
        body: shapes.CancelMessage = call.body
        reason = None if body.reason is None else body.reason[:MAX_REASON_LENGTH]
        message = await self._cancellation.cancel_message(call.principal, call.path["message_id"], reason)
        return Response(await self._row(message))

    async def _row(self, message: Message) -> dict[str, object]:
        return results.message_row(message, await self._directory.delivery_mode(message.target_id))


def _statuses(given: str | None) -> frozenset[str]:
    asked = names(given)
    if not asked <= set(STATUSES):
        raise invalid("status", f"status is one of {', '.join(STATUSES)}, or several separated by commas")
    return asked


def _time(given: str | None) -> datetime | None:
    try:
        return None if given is None else times.parse_time(given)
    except ValueError as problem:
        raise invalid("since", str(problem)) from problem
