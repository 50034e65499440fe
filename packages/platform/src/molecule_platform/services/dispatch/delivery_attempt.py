"""Deliver one message to an agent with a URL and store its outcome.

An agent that answers at once settles the message. A task that streams or keeps working is followed until it
ends, needs input or reaches its deadline, whether or not a client reads it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

from molecule_platform.domain import dispatch, messages, tasks
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports import agents
from molecule_platform.ports.agents import AgentClient, AgentEvent, Completed, Delivery, DeliveryFailed
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.services.dispatch import task_recorder
from molecule_platform.services.dispatch.cancel_notifier import LISTEN_SECONDS, CancelNotifier
from molecule_platform.services.dispatch.idle_watchdog import IdleWatchdog, last_sign_of_work
from molecule_platform.services.dispatch.task_recorder import RecordResult, TaskRecorder
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.tasks.task_streams import TaskStreams
from molecule_platform.services.support import signals
from molecule_platform.services.support.outcome_waiters import OutcomeWaiters
from molecule_platform.services.support.worker_thread import LARGE_BYTES
from molecule_wire.a2a import envelopes
from molecule_wire.a2a.tasks import EventRefused

STORAGE_RETRY_SECONDS = 1.0
UPSTREAM_TRIES = 5
# An answered task that is still heard is left to the follower when it was silent for so long.
OUTLIVING = timedelta(seconds=60)

Reply = Completed | DeliveryFailed


@dataclass(frozen=True)
class AttemptLimits:
    """What limits one attempt; `max_bytes` is what the agent may say in it, over however many streams."""

    idle_seconds: int
    chance: Callable[[], float]
    # For how long an agent is heard that has not said a word when its message ends otherwise.
    listen_seconds: float = LISTEN_SECONDS
    max_bytes: int = 64 * 1024 * 1024


class DeliveryAttempt:
    """Carries messages, one call each. Knows nothing of queues."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        log: Log,
        link: AgentClient,
        streams: TaskStreams,
        waiters: OutcomeWaiters,
        bounds: AttemptLimits,
        open_dispatch_secret: Callable[[Workspace], str | None],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._link = link
        self._streams = streams
        self._waiters = waiters
        self._bounds = bounds
        self._open_dispatch_secret = open_dispatch_secret
        self.cancel_notifier = CancelNotifier(storage, log, link, open_dispatch_secret, bounds.listen_seconds)
        self.stopping = False
        # Messages whose end is written by whoever carries them: it need not be told of it.
        self.ending: set[tuple[str, int]] = set()

    async def run(self, message: Message, workspace: Workspace) -> str:
        """Bring the message to its outcome, or back into the mailbox; says in a word which."""
        heard = TaskRecorder(message, self._bounds.max_bytes)
        try:
            reply = await self._reply(heard, workspace)
            self.ending.add((message.id, message.lease_epoch))
            return await self._end(heard, workspace, reply)
        finally:
            self.ending.discard((message.id, message.lease_epoch))

    async def _reply(self, heard: TaskRecorder, workspace: Workspace) -> Reply:
        message = heard.message
        try:
            return await self._deliver(heard, workspace)
        except asyncio.CancelledError:
            if not self.cancel_notifier.is_cancelled(message):
                await self._storage.write(lambda tx: self._give_back(tx, message))
                await self.cancel_notifier.stop_agent(message, workspace, heard.task_id)
            raise
        except task_log.LeaseLost:
            # The lease is gone, which settling will find; or the task had an end before this message had one.
            sentence = "the task was over, or taken by another message, before the agent was done"
            return DeliveryFailed("invalid-agent-response", sentence, False, delivery_confirmed=True)
        except agents.RetryRequested:
            return agents.RETRY_REQUESTED
        except (EventRefused, agents.ResponseTooLarge) as refused:
            return DeliveryFailed("invalid-agent-response", refused.sentence, False, delivery_confirmed=True)
        except Exception as problem:  # noqa: BLE001 - a fault of ours must not leave the message leased for ever
            self._log.error("a message could not be handed over", message_id=message.id, exc_info=problem)
            sentence = f"the message could not be handed over ({type(problem).__name__})"
            return DeliveryFailed("internal", sentence, retryable=True)

    async def _end(self, heard: TaskRecorder, workspace: Workspace, reply: Reply) -> str:
        how = "fenced"
        try:
            if heard.artifact_bytes > LARGE_BYTES and isinstance(reply, Completed):
                await self._fold(heard)
            how = await self._write_until_done(heard, workspace, reply)
        finally:
            if how == "fenced":
                self.cancel_notifier.notify_later(heard, workspace, reply)
        return how

    async def _fold(self, heard: TaskRecorder) -> None:
        with contextlib.suppress(StorageDown):
            loaded = await self._storage.read(lambda tx: task_recorder.load(tx, heard))
            if loaded is not None:
                await asyncio.to_thread(task_recorder.fold, heard, *loaded)

    def _give_back(self, tx: Transaction, message: Message) -> None:
        tx.mailbox.release(message.id, message.lease_epoch, self._clock.now())

    # Talking

    def _dispatch(self, message: Message, workspace: Workspace) -> Delivery:
        secret = self._open_dispatch_secret(workspace)
        return Delivery(workspace, message, secret, self._seconds_left(message))

    def _seconds_left(self, message: Message) -> float:
        return max((message.deadline_at - self._clock.now()).total_seconds(), 0.0)

    async def _deliver(self, heard: TaskRecorder, workspace: Workspace) -> Reply:
        now = self._clock.now()
        if heard.message.deadline_at <= now:
            return DeliveryFailed(
                "deadline-exceeded", "the deadline passed before the message was sent", False
            )
        idle = workspace.idle_timeout_seconds or self._bounds.idle_seconds
        watchdog = IdleWatchdog(idle, partial(self._sign, heard.message), now)
        try:
            return await self._talk(heard, workspace, watchdog)
        except asyncio.CancelledError:
            if not watchdog.timed_out():
                raise
        finally:
            watchdog.end()
        sentence = f"{workspace.name} showed no sign of work for {idle:g} s"
        return DeliveryFailed("peer-unreachable", sentence, True, delivery_confirmed=True)

    async def _sign(self, message: Message) -> datetime | None:
        return await self._storage.read(lambda tx: last_sign_of_work(tx, message))

    async def _talk(self, heard: TaskRecorder, workspace: Workspace, watchdog: IdleWatchdog) -> Reply:
        """Hand over, then follow for as long as the agent says that it works."""

        async def tell(said: Sequence[AgentEvent]) -> None:
            if await self._record(heard, said):
                watchdog.reset(self._clock.now())

        if heard.task_id is None:
            reply = await self._handed_over(heard, workspace, tell)
        else:
            reply = agents.InProgress(heard.task_id)
        if isinstance(reply, Completed):
            if not self._may_be_old(heard.message, reply):
                return reply
            asked = self._dispatch(heard.message, workspace)
            seen = await self._link.look(asked, reply.agent_task_id or heard.message.task_id)
            if isinstance(seen, DeliveryFailed) or seen.kind != "task":
                return reply
            await tell([seen])
            reply = agents.InProgress(reply.agent_task_id)
        if isinstance(reply, agents.InProgress):
            heard.ask_about(reply.task_id)
        if isinstance(reply, agents.InProgress) and heard.task_id is None:
            # There is no task to ask about: the agent answers by a message of its own, which ends this.
            await asyncio.Event().wait()
        if isinstance(reply, DeliveryFailed) and heard.task_id is not None and reply.delivery_confirmed:
            reply = agents.InProgress(heard.task_id)
        return await self._followed(heard, workspace, tell) if isinstance(reply, agents.InProgress) else reply

    async def _handed_over(
        self, heard: TaskRecorder, workspace: Workspace, tell: agents.Tell
    ) -> Reply | agents.InProgress:
        """What the agent says to the message.

        At the deadline others end the message, and the agent is heard a little longer.
        """
        message, secret = heard.message, self._open_dispatch_secret(workspace)
        seconds = self._seconds_left(message) + self._bounds.listen_seconds
        renamed = None if message.task_id == message.id else await self._renamed(message)
        asked = Delivery(workspace, message, secret, seconds, renamed)
        self.cancel_notifier.watch(message, workspace)
        try:
            reply = await self._link.deliver(asked, tell)
        finally:
            self.cancel_notifier.unwatch(message)
        if isinstance(reply, agents.InProgress) and self.cancel_notifier.is_cancelled(message):
            heard.ask_about(reply.task_id)
            raise task_log.LeaseLost
        return reply

    def _may_be_old(self, message: Message, reply: Completed) -> bool:
        if reply.task_state not in tasks.INTERRUPTED or message.task_id == message.id:
            return False
        version = "1.0" if message.dialect == "1.0" else None
        asked = envelopes.parse_request(message.body, version=version, lenient=True)
        return not asked.blocking and not self.cancel_notifier.is_cancelled(message)

    async def _renamed(self, message: Message) -> str | None:
        task = await self._storage.glance(lambda tx: task_log.task_of(tx, message))
        return None if task is None or task.agent_task_id == task.id else task.agent_task_id

    async def _record(self, heard: TaskRecorder, said: Sequence[AgentEvent]) -> bool:
        now = self._clock.now()
        heard.count(said)
        if sum([len(one.payload) for one in said]) > LARGE_BYTES:
            said = await asyncio.to_thread(heard.rename, said)

        def work(tx: Transaction) -> RecordResult:
            recorded = heard.record(tx, said, now)
            if heard.outlives_lease:
                self._leave_to_follower(tx, heard.message, now + OUTLIVING)
            return recorded

        try:
            recorded = await self._storage.write(work)
        except task_log.LeaseLost:
            heard.too_late(said)
            raise
        heard.heard(recorded)
        self._streams.publish(recorded.key, recorded.events)
        if self.cancel_notifier.is_cancelled(heard.message):
            raise task_log.LeaseLost
        if heard.task_id is not None:
            self.cancel_notifier.unwatch(heard.message)
        if recorded.refused is not None:
            raise recorded.refused
        if heard.state == "auth-required" and not heard.outlives_lease:
            # The caller has its answer; the agent may go on by itself once it has the credential.
            self.ending.add((heard.message.id, heard.message.lease_epoch))
            await self._storage.write(lambda tx: self._settle_heard(tx, heard))
            heard.outlives_lease = True
        return bool(recorded.events)

    async def _followed(self, heard: TaskRecorder, workspace: Workspace, tell: Any) -> Reply:
        looks, failures = 0, 0
        while not heard.is_settled or (heard.outlives_lease and not heard.is_over):
            asked, written = self._dispatch(heard.message, workspace), heard.written
            heard.resume()
            reply = await self._link.follow(asked, heard.task_id or "", tell)
            if heard.is_settled:
                break
            if not isinstance(reply, agents.InProgress):
                # It does not stream, or has nothing to stream any more.
                heard.resume()
                seen = await self._link.look(asked, heard.task_id or "")
                if isinstance(seen, DeliveryFailed):
                    failures += 1
                    if seen.forgotten or failures >= UPSTREAM_TRIES:
                        return seen
                else:
                    failures = 0
                    await tell([seen])
            if isinstance(reply, agents.InProgress) and heard.written > written:
                # A stream that told something new was only cut: it is joined again at once.
                looks = 0
            elif not heard.is_settled:
                await asyncio.sleep(tasks.look_delay(looks))
                looks += 1
        return Completed(task_state=heard.state or "completed", agent_task_id=heard.task_id)

    # Writing down

    async def _write_until_done(self, heard: TaskRecorder, workspace: Workspace, reply: Reply) -> str:
        refused = False
        while True:
            try:
                how, ended = await self._storage.write(
                    lambda tx, reply=reply: self._finish(tx, heard, workspace, reply)
                )
                if ended is not None:
                    self._waiters.resolve(ended)
                return how
            except StorageDown:
                if self.stopping:
                    return "fenced"
                await asyncio.sleep(STORAGE_RETRY_SECONDS)
            except Exception as problem:  # noqa: BLE001 - an answer that cannot be kept must not wedge the message
                self._log.error(
                    "an answer cannot be kept", message_id=heard.message.id, problem=repr(problem)
                )
                sentence = "the agent's answer cannot be kept"
                reply = DeliveryFailed("invalid-agent-response", sentence, False, delivery_confirmed=True)
                if refused:
                    return "failed"
                refused = True

    def _finish(
        self, tx: Transaction, heard: TaskRecorder, workspace: Workspace, reply: Reply
    ) -> tuple[str, Message | None]:
        now = self._clock.now()
        how, ended = self._settle(tx, heard, workspace, reply, now)
        if how != "fenced":
            self._one_less(tx, workspace)
        if how == "retry":
            tx.signal(signals.mail(workspace.id))
        return how, ended

    def _one_less(self, tx: Transaction, workspace: Workspace) -> None:
        current = tx.workspaces.standing(workspace)
        if current is not None and current.active_tasks > 0:
            tx.workspaces.one_less(workspace.id)

    def _settle(
        self, tx: Transaction, heard: TaskRecorder, workspace: Workspace, reply: Reply, now: datetime
    ) -> tuple[str, Message | None]:
        message = heard.message
        if heard.outlives_lease:
            self._leave_to_follower(tx, message, now)
            return "answered", None
        if isinstance(reply, Completed) and settlement.is_bare_message(reply) and reply.result is not None:
            ended = settlement.answer(tx, message, reply.result, now)
            if ended is not None:
                return "answered", ended
        outcome = self._outcome(tx, heard, workspace, reply, now)
        if outcome is None:
            return self._again(tx, message, cast("DeliveryFailed", reply), now), None
        ended = settlement.settle(tx, message.id, outcome, now, message.lease_epoch)
        return "fenced" if ended is None else ended.status, ended

    def _outcome(
        self, tx: Transaction, heard: TaskRecorder, workspace: Workspace, reply: Reply, now: datetime
    ) -> MessageOutcome | None:
        if isinstance(reply, Completed):
            return self._answered(tx, heard, reply)
        message = heard.message
        if now >= message.deadline_at:
            return messages.expiry(message)
        more: dict[str, Any] = {"delivery_confirmed": reply.delivery_confirmed}
        if reply.agent_status is not None:
            more["agent_status"] = reply.agent_status
        if reply.code == "peer-busy" and dispatch.owns(workspace, "session"):
            more |= {"busy": True, "retry_after": dispatch.COME_BACK_SECONDS, "native_session": True}
            return messages.failure(reply.code, reply.sentence, dead_letter=False, **more)
        owns_retries = reply.came_after_delivery and dispatch.owns(workspace, "retry")
        if reply.retryable and not owns_retries and message.attempts < message.max_attempts:
            return None
        return messages.failure(reply.code, reply.sentence, **more)

    def _again(self, tx: Transaction, message: Message, reply: DeliveryFailed, now: datetime) -> str:
        seconds = reply.retry_after or messages.retry_delay(message.attempts, self._bounds.chance())
        again = now + timedelta(seconds=seconds)
        current = tx.mailbox.get(message.id) if reply.forgotten else None
        if current is not None:
            tx.mailbox.belongs_to(message.id, current.task_id, None, current.context_id)
        if not tx.mailbox.retry(message.id, message.lease_epoch, now, again, reply.code, reply.sentence):
            return "fenced"
        settlement.moved(tx, message, now)
        return "retry"

    def _settle_heard(self, tx: Transaction, heard: TaskRecorder) -> None:
        message, now = heard.message, self._clock.now()
        answered = Completed(task_state=heard.state or "completed", agent_task_id=heard.task_id)
        settlement.settle(tx, message.id, self._answered(tx, heard, answered), now, message.lease_epoch)
        self._leave_to_follower(tx, message, now + OUTLIVING)

    def _leave_to_follower(self, tx: Transaction, message: Message, at: datetime) -> None:
        current = tx.mailbox.get(message.id)
        task = None if current is None else task_log.task_of(tx, current)
        if task is not None and not task.is_over:
            tx.tasks.change(task.key, look_at=at)

    def _answered(self, tx: Transaction, heard: TaskRecorder, reply: Completed) -> MessageOutcome:
        if reply.result is None and reply.error is None:
            result = task_recorder.result_of(tx, heard)
            state = heard.state or "completed"
            return MessageOutcome("answered", result, state, agent_task_id=heard.task_id, told=True)
        return settlement.outcome_of(reply)
