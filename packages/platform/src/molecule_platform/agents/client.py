"""Push: hand a message to an agent at the URL it registered, and hear what it says."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TypeVar

from molecule_platform.agents import event_parser, request_body, response_parser
from molecule_platform.agents.event_reader import AgentEventReader
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.egress import exchange, guard, streaming
from molecule_platform.egress.connector import Outbound
from molecule_platform.ports.agents import (
    AgentEvent,
    Completed,
    Delivery,
    DeliveryFailed,
    InProgress,
    ResponseTooLarge,
    Tell,
)
from molecule_platform.services.support.worker_thread import run_in_thread_if_large
from molecule_wire import JSONObject, times
from molecule_wire.a2a import errors, operations
from molecule_wire.a2a.operations import Dialect, Operation
from molecule_wire.jsonlimits import DEFAULT_LIMITS, JSONLimits, TooMuch
from molecule_wire.sse_decoder import EventTooLarge

Result = TypeVar("Result")
SHORT_SECONDS = 15.0
# An agent that lets a subscriber wait until it has something to say is asked for its task instead.
SUBSCRIBE_SECONDS = 5.0


class HttpAgentClient:
    """See `ports.links.AgentLink`."""

    def __init__(
        self,
        outbound: Outbound,
        most_bytes: int,
        now: Callable[[], datetime],
        assert_caller: Callable[[Message, Workspace, datetime], str],
        limits: JSONLimits = DEFAULT_LIMITS,
    ) -> None:
        self._outbound = outbound
        self._most_bytes = most_bytes
        self._now = now
        self._assert_caller = assert_caller
        self._limits = limits

    async def deliver(self, dispatch: Delivery, tell: Tell) -> Completed | InProgress | DeliveryFailed:
        """POST to the registered URL exactly as registered, and read the answer, whole or as it comes."""
        spoken = request_body.dialect_of(dispatch.target, dispatch.message.dialect)
        body = request_body.body_for(dispatch.target, dispatch.message, spoken, dispatch.task_id)
        continues = dispatch.message.task_id != dispatch.message.id
        reader = AgentEventReader(spoken, tell, self._most_bytes, self._limits, continues=continues)
        return await self._heard(dispatch, spoken, body, tell, reader)

    async def follow(
        self, dispatch: Delivery, task_id: str, tell: Tell
    ) -> Completed | InProgress | DeliveryFailed:
        """Subscribe to a task of the agent's."""
        if not request_body.streams(dispatch.target):
            return DeliveryFailed("invalid-agent-response", "the agent does not stream", True, True)
        spoken = request_body.dialect_of(dispatch.target, dispatch.message.dialect)
        body = request_body.ask(operations.SUBSCRIBE, spoken, task_id, dispatch.message.tenant)
        look = partial(self.look, dispatch, task_id)
        reader = AgentEventReader(spoken, tell, self._most_bytes, self._limits, look=look)
        return await self._heard(dispatch, spoken, body, tell, reader, SUBSCRIBE_SECONDS)

    async def look(self, dispatch: Delivery, task_id: str) -> AgentEvent | DeliveryFailed:
        """Ask for a task of the agent's."""
        spoken = request_body.dialect_of(dispatch.target, dispatch.message.dialect)
        found = await self._asked(dispatch, operations.GET, spoken, task_id)
        if isinstance(found, DeliveryFailed):
            return found
        try:
            return event_parser.read(b'{"task":' + found + b"}" if spoken == "1.0" else found, spoken)
        except errors.A2AError as problem:
            return DeliveryFailed("invalid-agent-response", f"{dispatch.target.name}: {problem}", True, True)

    async def relay(self, dispatch: Delivery) -> Completed | DeliveryFailed:
        """POST the bytes as they came; any result is an answer."""
        spoken: Dialect = "1.0" if dispatch.message.dialect == "1.0" else "0.3"
        found = await self._exchanged(dispatch, spoken, dispatch.message.body, dispatch.seconds)
        if isinstance(found, DeliveryFailed):
            return found
        return Completed(found.result) if found.error is None else Completed(error=found.error)

    async def cancel(
        self, dispatch: Delivery, task_id: str, said: JSONObject | None = None
    ) -> bytes | DeliveryFailed:
        """Ask the agent to stop."""
        spoken = request_body.dialect_of(dispatch.target, dispatch.message.dialect)
        return await self._asked(dispatch, operations.CANCEL, spoken, task_id, said)

    async def _asked(
        self,
        dispatch: Delivery,
        operation: Operation,
        spoken: Dialect,
        task_id: str,
        said: JSONObject | None = None,
    ) -> bytes | DeliveryFailed:
        """The result of a short question about a task."""
        body = request_body.ask(operation, spoken, task_id, dispatch.message.tenant, said)
        found = await self._exchanged(dispatch, spoken, body, min(SHORT_SECONDS, dispatch.seconds))
        if isinstance(found, DeliveryFailed):
            return found
        if found.result is None:
            return response_parser.refused(found.error)
        return found.result

    async def _exchanged(
        self, dispatch: Delivery, spoken: Dialect, body: bytes, seconds: float
    ) -> event_parser.ParsedEvent | DeliveryFailed:
        """The one JSON-RPC answer to a question."""
        try:
            answer = await exchange.exchange(
                self._outbound,
                "POST",
                dispatch.target.url,
                headers=self._headers(dispatch, spoken),
                data=body,
                seconds=seconds,
                most_bytes=self._most_bytes,
            )
            read = partial(event_parser.frame, answer.body)
            return await run_in_thread_if_large(
                len(answer.body), partial(self._within_limits, answer.body, read)
            )
        except (
            guard.UnsafeUrl,
            exchange.NoResponse,
            exchange.BodyTooLarge,
            TooMuch,
            errors.A2AError,
        ) as problem:
            return DeliveryFailed("peer-unreachable", f"{dispatch.target.name}: {problem}", True, True)

    async def _heard(
        self,
        dispatch: Delivery,
        spoken: Dialect,
        body: bytes,
        tell: Tell,
        reader: AgentEventReader,
        head_seconds: float | None = None,
    ) -> Completed | InProgress | DeliveryFailed:
        target = dispatch.target
        try:
            async with streaming.opened(
                self._outbound,
                target.url,
                headers=self._headers(dispatch, spoken),
                data=body,
                seconds=dispatch.seconds,
                most_bytes=self._most_bytes,
                head_seconds=head_seconds,
            ) as answer:
                if answer.is_stream and answer.status < 300:
                    return await reader.read(answer)
                whole = await answer.body()
                read = partial(
                    response_parser.read, answer.status, answer.headers, whole, dispatch.message, spoken
                )
                found = await run_in_thread_if_large(len(whole), partial(self._within_limits, whole, read))
        except guard.UnsafeUrl as problem:
            return DeliveryFailed("unsafe-url", str(problem), retryable=False)
        except exchange.NoResponse as problem:
            return reader.broke_off(f"{target.name}: {problem}", problem.sent)
        except EventTooLarge as problem:
            # Subscribing again would bring the same event.
            raise ResponseTooLarge(f"{target.name}: {problem}") from problem
        except (exchange.BodyTooLarge, TooMuch) as problem:
            return DeliveryFailed(
                "invalid-agent-response", str(problem), retryable=False, delivery_confirmed=True
            )
        if isinstance(found, AgentEvent):
            await tell([found])
            return InProgress(found.task_id)
        return found

    def _within_limits(self, body: bytes, read: Callable[[], Result]) -> Result:
        if self._limits.needs_scan(body):
            self._limits.scan(body)
        return read()

    def _headers(self, dispatch: Delivery, dialect: Dialect) -> dict[str, str]:
        message, now = dispatch.message, self._now()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "X-Molecule-Caller": self._assert_caller(message, dispatch.target, now),
            "X-Molecule-Message-Id": message.id,
            "X-Molecule-Attempt": str(message.attempts),
            "X-Molecule-Deadline": times.format_time(message.deadline_at),
            "X-Timeout": str(max(1, int((message.deadline_at - now).total_seconds()))),
        }
        if message.request_id is not None:
            headers["X-Request-Id"] = message.request_id
        if message.traceparent is not None:
            headers["traceparent"] = message.traceparent
        if message.extensions is not None:
            headers["A2A-Extensions"] = message.extensions
            if dialect == "0.3":
                headers["X-A2A-Extensions"] = message.extensions
        if dialect == "1.0":
            headers["A2A-Version"] = "1.0"
        if dispatch.dispatch_secret is not None:
            headers["Authorization"] = f"Bearer {dispatch.dispatch_secret}"
        return headers
