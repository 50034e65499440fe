"""Sending a message, at either door: it is accepted, perhaps waited for, or followed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from molecule_platform.domain import dispatch, responses
from molecule_platform.domain.messages import Message
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.messages.message_service import MessageService
from molecule_platform.services.messaging.messages.new_message import AcceptedMessage, NewMessage
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.tasks.task_service import TaskService
from molecule_platform.services.messaging.webhooks.push_configs import InlineConfig, PushConfigService
from molecule_platform.web.pipeline.calls import Call, Response
from molecule_platform.web.routes.a2a.a2a_call import A2ACall, SendOptions
from molecule_platform.web.routes.a2a.response_writer import Headers
from molecule_platform.web.streams.task_events import StreamStart, TaskEventStream
from molecule_wire.a2a import envelopes, extensions, push_configs

REPLAYED: Headers = (("idempotency-replayed", "true"),)


@dataclass(frozen=True)
class SendHandler:
    """Takes messages in. What their senders are told is for the doors to say."""

    delivery: MessageService
    tasks: TaskService
    frames: TaskEventStream
    configs: PushConfigService

    async def submission(self, ask: A2ACall, wishes: SendOptions, *, by_reference: bool) -> NewMessage:
        """The message to deliver: what it goes on with, who is told of its task, and by when it must end."""
        extensions.check_required(ask.workspace.agent_card, ask.extensions)
        continues = None
        if ask.request.task_id is not None:
            continues = await self.tasks.continued(
                ask.asking, ask.request, wishes.idempotency_key, by_reference
            )
        request, config = envelopes.inline_push(ask.request)
        if not request.blocking and dispatch.speaks_tasks(ask.workspace):
            # Its sender is told of a context before the agent speaks, which must know it by the same name.
            request = envelopes.in_context(request)
        inline = None
        if config is not None:
            modern = push_configs.from_0_3(config) if request.dialect == "0.3" else config
            dialect = "1.0" if ask.renderer.spelling == "1.0" else "0.3"
            inline = await self.configs.take_inline(ask.call.principal, modern, dialect)
        return NewMessage(
            ask.call.principal,
            ask.workspace,
            request,
            idempotency_key=wishes.idempotency_key,
            timeout_seconds=wishes.timeout_seconds,
            hold_seconds=wishes.hold_seconds,
            never_queue=wishes.never_queue,
            traceparent=ask.call.request.traceparent,
            begins_trace=ask.call.request.begins_trace,
            tenant=ask.invocation.tenant,
            extensions=",".join(ask.extensions) or None,
            request_id=ask.call.request_id,
            repeat_by_reference=by_reference,
            continues=continues,
            also=None if inline is None else self._attaching(inline),
        )

    def _attaching(self, inline: InlineConfig) -> Callable[[Transaction, Message, datetime], None]:
        def attach(tx: Transaction, message: Message, now: datetime) -> None:
            self.configs.attach(tx, inline, task_log.key_of(message), now)

        return attach

    async def unary(self, ask: A2ACall, submission: NewMessage) -> tuple[AcceptedMessage, Message]:
        """Accept a message and wait with its sender, as long as it wants to and is there."""
        receipt = await self.delivery.accept(submission)
        message, seconds = receipt.message, submission.hold_seconds
        if not message.is_open or seconds <= 0:
            return receipt, message
        if message.lease_kind == "dispatch":
            # It is on its way already; where its sender goes makes no difference to its answer.
            message = await self.delivery.outcome(message.id, seconds)
        else:
            message = await self._outcome_while_there(ask.call, message, seconds)
        return receipt, await self.delivery.stop_waiting(
            message.id, submission
        ) if message.is_open else message

    async def _outcome_while_there(self, call: Call, message: Message, seconds: float) -> Message:
        waiting = asyncio.ensure_future(self.delivery.outcome(message.id, seconds))
        leaving = asyncio.ensure_future(call.disconnected())
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else message
        finally:
            waiting.cancel()
            leaving.cancel()

    async def stream(self, ask: A2ACall, submission: NewMessage) -> Response:
        """Accept a message and tell its sender every event of it."""
        continues, before = submission.continues, None
        if continues is not None:
            before = StreamStart(continues.key, *await self.tasks.whole(continues.key))
        receipt = await self.delivery.accept(submission)
        reply = await self.frames.of_message(ask, receipt.message, before)
        return replace(reply, headers=(*reply.headers, *REPLAYED)) if receipt.replayed else reply

    async def ended_task(self, ask: A2ACall, message: Message) -> bytes:
        """The result of a message that has ended: its answer, or its task; raises the error it ended with."""
        result = message.result if message.status == "answered" else None
        # The history of a task that the platform keeps is in the log, not in the agent's answer.
        is_ours = not dispatch.speaks_tasks(ask.workspace)
        if result is not None and not (is_ours and ask.renderer.shows_history):
            return ask.renderer.stored(result, message.dialect)
        task = await self.tasks.of_message(message)
        if result is not None:
            return ask.renderer.stored(result, message.dialect, (task or {}).get("history"))
        if task is None:
            raise responses.error_of(message)
        return ask.renderer.event({"task": task})
