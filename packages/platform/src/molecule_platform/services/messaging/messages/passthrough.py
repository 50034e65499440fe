"""What is neither a message nor about a task: a method that only the agent knows goes to it as it came.

Nothing is kept of it, and it is tried once: who asks hears what the agent says, or that it said nothing.
"""

from collections.abc import Callable

from molecule_platform.domain import dispatch
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.agents import Delivery, DeliveryFailed, PassthroughClient
from molecule_wire import jsontext
from molecule_wire.a2a import errors


class PassthroughService:
    """Asks agents what the platform does not understand."""

    def __init__(
        self, link: PassthroughClient, open_dispatch_secret: Callable[[Workspace], str | None]
    ) -> None:
        self._link = link
        self._open_dispatch_secret = open_dispatch_secret

    async def relay(self, asked: Message, target: Workspace) -> bytes:
        """The agent's result. Raises its error, or -32601 where there is nobody who could know the method."""
        if not dispatch.speaks_tasks(target):
            raise unknown(asked.method)
        seconds = (asked.deadline_at - asked.created_at).total_seconds()
        secret = self._open_dispatch_secret(target)
        answer = await self._link.relay(Delivery(target, asked.but(attempts=1), secret, seconds))
        if isinstance(answer, DeliveryFailed):
            raise errors.gateway_error(answer.code, answer.sentence)
        if answer.error is not None:
            raise errors.from_object(jsontext.decode(answer.error))
        return answer.result or b"null"


def unknown(method: str) -> errors.A2AError:
    """Nobody here knows the method."""
    return errors.protocol_error(errors.METHOD_NOT_FOUND, f"{method[:64]} is not known here")
