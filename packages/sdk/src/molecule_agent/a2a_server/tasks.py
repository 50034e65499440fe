"""The operations of A2A at an agent's own door: a message becomes a turn, the turn a task."""

import hashlib
import json
import uuid
from collections.abc import Hashable, Iterator

from molecule_agent.a2a_server import framing, pages, payloads, turns, web
from molecule_agent.a2a_server.asks import Ask
from molecule_agent.a2a_server.task_log import TaskLog
from molecule_wire import JSONObject
from molecule_wire.a2a import errors, operations, sse

KEEP_ALIVE_SECONDS = 15.0

_SENDS = (operations.SEND, operations.STREAM)
_PUSH = (operations.PUSH_CREATE, operations.PUSH_GET, operations.PUSH_LIST, operations.PUSH_DELETE)


class Tasks:
    """Answers what is asked about tasks, and starts them."""

    def __init__(self, respond: payloads.Respond, running: turns.Turns) -> None:
        self._respond = respond
        self._turns = running
        self._pages = pages.Pages()
        self._operations = {
            operations.GET: self._get,
            operations.LIST: self._list,
            operations.CANCEL: self._cancel,
            operations.SUBSCRIBE: self._subscribe,
        }

    def answer(self, ask: Ask) -> web.Outgoing:
        """Do what is asked. Raises A2AError, AgentBusy or AgentStopping."""
        operation = ask.request.operation
        if operation is None:
            raise errors.protocol_error(errors.METHOD_NOT_FOUND)
        if operation in _PUSH:
            raise errors.protocol_error(errors.PUSH_NOTIFICATION_NOT_SUPPORTED)
        if operation in _SENDS:
            return self._send(ask)
        if operation not in self._operations:
            raise errors.protocol_error(errors.UNSUPPORTED_OPERATION)
        return self._operations[operation](ask)

    def _send(self, ask: Ask) -> web.Outgoing:
        turn, task = self._started(ask)
        if ask.request.operation is operations.STREAM:
            return _stream(ask, turn, task, 0)
        if ask.request.blocking:
            turn.wait()
        return ask.framing.reply(ask.speech.event({"task": task.whole}))

    def _started(self, ask: Ask) -> tuple[turns.Turn, TaskLog]:
        asked = ask.request
        key, fingerprint = _key(ask)
        if asked.task_id:
            self._refuse_task(ask, asked.task_id)
        task_id, context_id = str(uuid.uuid4()), asked.context_id or str(uuid.uuid4())
        payload = payloads.of_message(asked, ask.incoming, task_id, context_id)
        task = TaskLog(task_id, context_id, ask.owner, payloads.message_1_0(asked))
        try:
            turn = self._turns.start(
                task_id,
                key,
                lambda: self._respond(payload, ask.incoming),
                task,
                fingerprint,
                len(ask.incoming.body),
            )
        except turns.KeyReused as first:
            sentence = "this Idempotency-Key was used for another message"
            raise errors.gateway_error("idempotency-conflict", sentence, existing_id=str(first)) from first
        assert turn.task is not None
        return turn, turn.task

    def _refuse_task(self, ask: Ask, task_id: str) -> None:
        """No task of this door waits for another message: it runs, or it has ended."""
        _, task = self._found(ask, task_id)
        if ask.request.context_id not in (None, task.context_id):
            sentence = "is not the context of the task: leave it out, or send the task's own"
            raise errors.invalid_params(errors.Violation("message.contextId", sentence))
        sentence = "This task takes no further message: send a new one without its taskId"
        raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, sentence)

    def _found(self, ask: Ask, task_id: str) -> tuple[turns.Turn, TaskLog]:
        """The task, if it is the caller's; for anybody else there is none.

        The platform names it by the message until it was told its name.
        """
        turn = self._turns.find(task_id)
        if turn is None and task_id == ask.incoming.header("X-Molecule-Message-Id"):
            turn = self._turns.of_message(redelivery_key(ask.incoming))
        if turn is None or turn.task is None or turn.task.owner != ask.owner:
            raise errors.protocol_error(errors.TASK_NOT_FOUND)
        turn.time_left()
        return turn, turn.task

    def _get(self, ask: Ask) -> web.Outgoing:
        _, task = self._found(ask, ask.request.task_id or "")
        return ask.framing.reply(ask.speech.task(task.whole))

    def _list(self, ask: Ask) -> web.Outgoing:
        params = ask.request.params
        known = [turn.task for turn in self._turns.remembered() if turn.task is not None]
        found, more = self._pages.page(known, ask.owner, params)
        artifacts = params.get("includeArtifacts") is True
        shown = [task.whole if artifacts else _without_artifacts(task.whole) for task in found]
        return ask.framing.reply({"tasks": [ask.speech.task(task) for task in shown], **more})

    def _cancel(self, ask: Ask) -> web.Outgoing:
        turn, task = self._found(ask, ask.request.task_id or "")
        if task.is_over:
            raise errors.protocol_error(errors.TASK_NOT_CANCELABLE)
        turn.cancel()
        return ask.framing.reply(ask.speech.task(task.whole))

    def _subscribe(self, ask: Ask) -> web.Outgoing:
        turn, task = self._found(ask, ask.request.task_id or "")
        seen = ask.incoming.header("Last-Event-ID")
        if seen:
            return self._resumed(ask, turn, task, seen)
        if task.is_over:
            sentence = "The task has ended: read it with GetTask"
            raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, sentence)
        number, whole = task.number, task.whole
        return _stream(ask, turn, task, number, (number, {"task": whole}))

    def _resumed(self, ask: Ask, turn: turns.Turn, task: TaskLog, seen: str) -> web.Outgoing:
        number = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else -1
        if not 0 <= number <= task.number:
            sentence = "must be the number of an event of this task"
            raise errors.invalid_params(errors.Violation("Last-Event-ID", sentence))
        if task.is_over and number == task.number:
            sentence = "The task has ended and everything was seen"
            raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, sentence)
        if number == 0:
            return _stream(ask, turn, task, 0)
        before = task.as_of(number)
        thin: JSONObject = {name: before[name] for name in ("id", "contextId", "status")}
        thin["metadata"] = {"molecule.resumedAfter": number}
        return _stream(ask, turn, task, number, (number, {"task": thin}))


def redelivery_key(request: web.Incoming) -> Hashable | None:
    """What is equal on each delivery of one message by the platform."""
    principal = str((request.caller or {}).get("principal"))
    row = request.header("X-Molecule-Message-Id")
    return ("row", principal, row) if row else None


def _key(ask: Ask) -> tuple[Hashable | None, str]:
    """By what a repetition of a send is known, and what must be the same in it."""
    row = redelivery_key(ask.incoming)
    named = ask.incoming.header("Idempotency-Key")
    if row is not None or not named:
        return row, ""
    said = json.dumps([ask.request.method, ask.request.params], sort_keys=True)
    return ("key", ask.owner, named), hashlib.sha256(said.encode()).hexdigest()


def _without_artifacts(task: JSONObject) -> JSONObject:
    return {name: value for name, value in task.items() if name != "artifacts"}


def _stream(
    ask: Ask, turn: turns.Turn, task: TaskLog, number: int, first: tuple[int, JSONObject] | None = None
) -> web.Outgoing:
    """The events of a task after a number, live, until it has ended; before them what is shown first."""

    def frames() -> Iterator[bytes]:
        seen = number
        if first is not None:
            yield ask.framing.frame(first[0], ask.speech.event(first[1]))
        while not (task.is_over and seen == task.number):
            events = task.after(seen, min(KEEP_ALIVE_SECONDS, turn.time_left() + 0.001))
            for seen, event in events:
                yield ask.framing.frame(seen, ask.speech.event(event))
            if not events and not turn.finished:
                yield sse.KEEP_ALIVE

    return web.Outgoing(200, headers=framing.STREAM_HEADERS, stream=frames())
