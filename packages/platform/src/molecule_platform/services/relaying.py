"""What is neither a message nor about a task: a method that only the agent knows goes to it as it came.

Nothing is kept of it, and it is tried once: who asks hears what the agent says, or that it said nothing.
"""

from collections.abc import Callable
from datetime import timedelta

from molecule_platform.domain import correspondence, dispatch, messages
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.links import Dispatch, RelayLink, Unanswered
from molecule_wire import ids, jsontext
from molecule_wire.a2a import errors
from molecule_wire.a2a.envelopes import Request


class Relaying:
    """Asks agents what the platform does not understand."""

    def __init__(
        self, clock: Clock, link: RelayLink, open_dispatch_secret: Callable[[Workspace], str | None]
    ) -> None:
        self._clock = clock
        self._link = link
        self._open_dispatch_secret = open_dispatch_secret

    async def relay(
        self, principal: Principal, target: Workspace, request: Request, request_id: str, seconds: float
    ) -> bytes:
        """The agent's result. Raises its error, or -32601 where there is nobody who could know the method."""
        if not dispatch.speaks_tasks(target):
            raise unknown(request)
        correspondence.check_budget(target)
        now, name = self._clock.now(), ids.uuid7()
        until = now + timedelta(seconds=seconds)
        asked = messages.new_message(
            id=name,
            org_id=target.org_id,
            seq=0,
            target_id=target.id,
            caller=principal.text,
            caller_name=principal.name,
            kind="message",
            method=request.method,
            dialect=request.dialect,
            body=request.body,
            body_hash="",
            message_ref=name,
            context_id=name,
            task_id=name,
            priority=messages.PRIORITY_USER,
            max_attempts=1,
            attempts=1,
            created_at=now,
            deadline_at=until,
            waits_until=until,
            request_id=request_id,
        )
        secret = self._open_dispatch_secret(target)
        answer = await self._link.relay(Dispatch(target, asked, secret, seconds))
        if isinstance(answer, Unanswered):
            raise errors.gateway_error(answer.code, answer.sentence)
        if answer.error is not None:
            raise errors.from_object(jsontext.decode(answer.error))
        return answer.result or b"null"


def unknown(request: Request) -> errors.A2AError:
    """Nobody here knows the method."""
    return errors.protocol_error(errors.METHOD_NOT_FOUND, f"{request.method[:64]} is not known here")
