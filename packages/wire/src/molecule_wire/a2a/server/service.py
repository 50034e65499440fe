"""The operations of A2A on the tasks that one process keeps in memory.

A transport reads a request, calls `perform`, and does what comes back: write a response, follow a stream, or
wait until a turn is over. Nothing here waits.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from molecule_wire import JSONObject, ids, times
from molecule_wire.a2a import convert, errors, operations, push_configs, tasks
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.server import paging
from molecule_wire.a2a.server.bindings import AgentBusy, Response
from molecule_wire.a2a.server.paging import ListQuery, Place
from molecule_wire.a2a.server.records import TurnRecord, TurnStore
from molecule_wire.a2a.server.requests import SENDS, Headers, Invocation
from molecule_wire.a2a.server.streams import EventStream
from molecule_wire.a2a.server.task_log import Owner, TaskLog
from molecule_wire.a2a.server.turns import Now, Turn, new_status
from molecule_wire.a2a.tasks import TaskState

MESSAGE_ID_HEADER = "x-molecule-message-id"


@dataclass(frozen=True)
class Retention:
    """How long, how many and how large turns that are over are remembered."""

    seconds: float = 600.0
    count: int = 1000
    size: int = 64 * 1024 * 1024


class TaskService:
    """Finds tasks for those who own them, begins them, and goes on with those that wait."""

    def __init__(
        self,
        now: Now,
        *,
        secret: bytes,
        retention: Retention | None = None,
        turn_seconds: float | None = None,
        admit: Callable[[], None] = lambda: None,
        store: TurnStore | None = None,
        new_task_id: Callable[[], str] = ids.uuid7,
        announces_work: bool = False,
        merges_chunks: bool = True,
    ) -> None:
        """With `announces_work` a task that its caller waits for begins as working.

        `admit` is called before each new turn; what it raises refuses the message.

        What a `store` has is known again: tasks, their answers, and which messages they answered.
        """
        self._now = now
        self._retention = retention or Retention()
        self._kept_for = timedelta(seconds=self._retention.seconds)
        self._turn_seconds = turn_seconds
        self._admit = admit
        self._new_task_id, self._merges_chunks = new_task_id, merges_chunks
        self._announces_work = announces_work
        self._seal = paging.HashSeal(secret)
        self._turns: OrderedDict[Hashable, tuple[Turn, str, datetime]] = OrderedDict()
        self._size = 0
        self._newest: dict[str, Turn] = {}
        """The newest turn of each task."""
        self._store = store
        for record in () if store is None else store.load():
            self._restore(record)

    def perform(
        self, invocation: Invocation, principal: str, headers: Headers, start: Callable[[Turn], None]
    ) -> Response | EventStream | Turn:
        """Do what is asked: a new turn is started. Raises A2AError.

        A turn comes back that the caller waits for; when it is over, `result` has the response.
        """
        owner, request = Owner(principal, invocation.tenant), invocation.request
        operation = request.operation
        if operation is None:
            raise errors.protocol_error(errors.METHOD_NOT_FOUND)
        if operation in SENDS:
            return self._send(invocation, owner, headers, start)
        if operation in push_configs.OPERATIONS:
            raise errors.protocol_error(errors.PUSH_NOTIFICATION_NOT_SUPPORTED)
        if operation is operations.LIST:
            return self._list(invocation, owner)
        if operation is operations.EXTENDED_CARD:
            raise errors.protocol_error(errors.UNSUPPORTED_OPERATION)
        log = self._found(request.task_id or "", owner, headers)
        if operation is operations.SUBSCRIBE:
            return EventStream.rejoined(invocation, log, headers.get("last-event-id"))
        if operation is operations.CANCEL:
            self._cancel(log)
        return invocation.binding.result(invocation.renderer.task(log.show()))

    # Sending

    def _send(
        self, invocation: Invocation, owner: Owner, headers: Headers, start: Callable[[Turn], None]
    ) -> Response | EventStream | Turn:
        request = invocation.request
        key, fingerprint = _key(request, owner, headers)
        now = self._now()
        turn = self.known(key, fingerprint, now)
        if turn is None:
            message = _message_1_0(request)
            log = self._going_on(request, message, owner, headers, now)
            turn = self.begin(log, message, key, fingerprint, len(request.body), now)
            turn.request, turn.headers = request, headers
            start(turn)
        if request.operation is operations.STREAM:
            return EventStream(invocation, turn.log, turn.first - 1, turn=turn)
        return turn if request.blocking and not turn.is_over else result(invocation, turn)

    def _going_on(
        self, request: A2ARequest, message: JSONObject, owner: Owner, headers: Headers, now: datetime
    ) -> TaskLog:
        """The task that a message goes on with, or a new one.

        Whoever waits for the end is not told of the beginning, so that is one event.
        """
        waiting = self._waiting(request, owner, headers) if request.task_id else None
        self._admit()
        is_at_work = self._announces_work and request.blocking and request.operation is operations.SEND
        state = TaskState.WORKING if is_at_work else TaskState.SUBMITTED
        if waiting is None:
            return self.new_task(owner, message, request.context_id, state, now)
        status = new_status(state, now)
        waiting.append({"task": tasks.continued(waiting.whole, message, status)})
        return waiting

    def known(self, key: Hashable | None, fingerprint: str = "", now: datetime | None = None) -> Turn | None:
        """The turn of a message that came before, unless it was called off or failed and may be repeated.

        Raises an error of the platform when another message was sent under the same key.
        """
        self._forget_old(now or self._now())
        found = None if key is None else self._turns.get(key)
        if found is None or found[0].cancelled or found[0].retry:
            return None
        if found[1] != fingerprint:
            sentence = "this Idempotency-Key was used for another message"
            raise errors.gateway_error("idempotency-conflict", sentence, existing_id=found[0].log.id)
        return found[0]

    def begin(
        self,
        log: TaskLog,
        message: JSONObject,
        key: Hashable | None,
        fingerprint: str = "",
        size: int = 0,
        now: datetime | None = None,
    ) -> Turn:
        """A new turn on a log, remembered under the key of its message."""
        now = now or self._now()
        deadline = None if self._turn_seconds is None else now + timedelta(seconds=self._turn_seconds)
        turn = Turn(log, message, self._now, deadline)
        turn.size = size
        if self._store is not None:
            turn.on_end.append(lambda: self._keep(turn, key, fingerprint, now))
        self.forget(key)
        self._turns[turn if key is None else key] = (turn, fingerprint, now)
        self._size += size
        self._newest[log.id] = turn
        return turn

    def _keep(self, turn: Turn, key: Hashable | None, fingerprint: str, begun_at: datetime) -> None:
        assert self._store is not None
        log = turn.log
        # A message that may come again must find no answer.
        known_by = () if turn.retry or turn.cancelled else cast("tuple[str, ...]", key or ())
        self._store.save(
            TurnRecord(
                log.id,
                log.context_id,
                *log.owner,
                known_by,
                fingerprint,
                turn.first,
                turn.last,
                log.whole,
                log.answer,
                begun_at,
                log.answer_json,
            )
        )

    def _restore(self, record: TurnRecord) -> None:
        owner = Owner(record.principal, record.tenant)
        turn = Turn(TaskLog.restored(record.whole, owner, record.last, record.answer), {}, self._now)
        turn.first, turn.last, turn.is_over = record.first, record.last, True
        self._turns[record.key or turn] = (turn, record.fingerprint, record.begun_at)
        self._newest[record.task_id] = turn

    def adopt(self, log: TaskLog) -> None:
        """Know a task that somebody else keeps, unless it is known already."""
        if log.id in self._newest:
            return
        turn = Turn(log, {}, self._now)
        turn.first, turn.last, turn.is_over = 1, log.number, True
        self._turns[turn] = (turn, "", self._now())
        self._newest[log.id] = turn

    def recall(self, log: TaskLog, key: Hashable, fingerprint: str) -> Turn:
        """Know a message of an earlier process again: sent once more, it leads to the same task."""
        turn = self.begin(log, {}, key, fingerprint)
        turn.first = 1
        if log.is_over or log.waits:
            turn.is_over, turn.last = True, log.number
        return turn

    def known_task(self, task_id: str) -> TaskLog | None:
        """The log of a task that is known, whoever owns it."""
        turn = self._newest.get(task_id)
        return None if turn is None else turn.log

    def forget(self, key: Hashable | None) -> None:
        """Let the next delivery of a message run again."""
        known = self._turns.pop(key, None)
        if known is not None:
            self._size -= known[0].size
            if self._newest.get(known[0].log.id) is known[0]:
                del self._newest[known[0].log.id]

    def new_task(
        self,
        owner: Owner,
        message: JSONObject,
        context_id: str | None = None,
        state: TaskState = TaskState.SUBMITTED,
        now: datetime | None = None,
    ) -> TaskLog:
        """The log of a task that begins with a message."""
        log = TaskLog(self._new_task_id(), context_id or ids.uuid7(), owner)
        log.merges_chunks = self._merges_chunks
        status = new_status(state, now or self._now())
        log.begin(tasks.begun(log.id, log.context_id, message, status))
        return log

    def _waiting(self, request: A2ARequest, owner: Owner, headers: Headers) -> TaskLog:
        """The task that a message goes on with. Raises what keeps it from going on."""
        log = self._found(request.task_id or "", owner, headers)
        if request.context_id not in (None, log.context_id):
            sentence = "is not the context of the task: leave it out, or send the task's own"
            raise errors.invalid_params(errors.Violation("message.contextId", sentence))
        if not log.waits:
            sentence = "This task takes no further message: send a new one without its taskId"
            raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, sentence)
        return log

    # Tasks

    def _found(self, task_id: str, owner: Owner, headers: Headers) -> TaskLog:
        """The task, if it is the caller's; for anybody else there is none.

        The platform names it by its own id of the message until it was told the task's.
        """
        self._forget_old(self._now())
        turn = self._newest.get(task_id)
        if turn is None and task_id == headers.get(MESSAGE_ID_HEADER):
            known = self._turns.get(redelivery_key(owner.principal, headers))
            turn = None if known is None else known[0]
        if turn is None or turn.log.owner != owner or turn.log.answer is not None:
            raise errors.protocol_error(errors.TASK_NOT_FOUND)
        return turn.log

    def _cancel(self, log: TaskLog) -> None:
        if log.is_over:
            raise errors.protocol_error(errors.TASK_NOT_CANCELABLE)
        turn = self._newest[log.id]
        (Turn(log, {}, self._now) if turn.is_over else turn).cancel()

    def _list(self, invocation: Invocation, owner: Owner) -> Response:
        params = invocation.request.params
        query = paging.list_query(params, owner, self._seal.open)
        known = (turn.log for turn in self._newest.values())
        logs = [log for log in known if log.owner == owner and _fits(log, query)]
        logs.sort(key=_place, reverse=True)
        left = [log for log in logs if query.before is None or _place(log) < query.before]
        shown = left[: query.limit]
        more = len(left) > query.limit
        token = paging.next_token(_place(shown[-1]), query, self._seal.seal) if more else ""
        told = [log.show() for log in shown]
        page = invocation.renderer.page(told, params, token, query.limit, len(logs))
        return invocation.binding.result(page)

    def _forget_old(self, now: datetime) -> None:
        """Forget turns that are over, the oldest first, while they are too old, too many or too large."""
        kept, oldest = self._retention, now - self._kept_for
        forgotten: list[Hashable] = []
        many, size = len(self._turns), self._size
        for key, (turn, _, begun_at) in self._turns.items():
            if begun_at >= oldest and many <= kept.count and size <= kept.size:
                break
            if turn.is_over:
                forgotten.append(key)
                many, size = many - 1, size - turn.size
        for key in forgotten:
            self.forget(key)


def result(invocation: Invocation, turn: Turn) -> Response:
    """The result of a send as it stands. Raises AgentBusy when the message may be delivered again."""
    if turn.retry:
        raise AgentBusy("the agent failed and asks for the message again", redeliver=True)
    log, renderer = turn.log, invocation.renderer
    if log.answer is None:
        return invocation.binding.result(renderer.event({"task": log.show()}))
    return invocation.binding.result(renderer.message(log.answer, log.answer_json))


def redelivery_key(principal: str, headers: Headers) -> Hashable | None:
    """What is equal on each delivery of one message by the platform."""
    row = headers.get(MESSAGE_ID_HEADER)
    return ("row", principal, row) if row else None


def _key(request: A2ARequest, owner: Owner, headers: Headers) -> tuple[Hashable | None, str]:
    """By what a repetition of a send is known, and what must be the same in it."""
    row = redelivery_key(owner.principal, headers)
    named = headers.get("idempotency-key")
    if row is not None or not named:
        return row, ""
    said = json.dumps([request.method, request.params], sort_keys=True)
    return ("key", *owner, named), hashlib.sha256(said.encode()).hexdigest()


def _message_1_0(request: A2ARequest) -> JSONObject:
    converter = convert.between(request.dialect, "1.0")
    message = request.message or {}
    return converter.message(message) if converter else message


def _place(log: TaskLog) -> Place:
    return str(log.status["timestamp"]), log.id


def _fits(log: TaskLog, query: ListQuery) -> bool:
    if log.answer is not None or query.context_id not in (None, log.context_id):
        return False
    if query.state not in (None, log.state):
        return False
    return query.after is None or times.parse_time(_place(log)[0]) > query.after
