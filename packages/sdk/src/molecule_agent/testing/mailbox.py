"""The durable mailbox of a fake platform: the states of a message, its leases, its back-off.

accepted --lease--> leased --answer--> answered
   ^                  |--- not retryable, or attempts used up --> failed, a dead letter
   '--- lease ran out, failed, released (too often: failed, a dead letter)
accepted|leased --deadline--> expired        accepted|leased --target removed--> cancelled
"""

from typing import NamedTuple

from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.http_messages import RequestRejected, moment, new_secret, object_in
from molecule_agent.testing.records import Message, Workspace
from molecule_wire import JSON, JSONObject, ids
from molecule_wire.a2a import convert, tasks

WAITS_SECONDS = 86_400.0
RUNS_SECONDS = {"user": 7200.0, "workspace": 1800.0}
PRIORITIES = {"user": 100, "workspace": 50}
RAISED_AFTER_SECONDS = 600.0
MAX_RETRY_SECONDS = 300.0
RELEASES_WITHOUT_PAUSE = 3
MAX_RELEASES = 20

_CLASSES = (10, 20, 50, 100)


class LeaseRequest(NamedTuple):
    """What a worker asks to be leased."""

    limit: int
    seconds: float
    worker: str = ""
    kinds: tuple[str, ...] = ()
    peer_id: str = ""
    context_id: str = ""

    def fits(self, message: Message) -> bool:
        """Whether the worker wants this message."""
        wanted_kind = not self.kinds or "message" in self.kinds
        return (
            wanted_kind
            and self.peer_id in ("", message.peer_id)
            and self.context_id in ("", message.context_id)
        )


class Mailbox:
    """Every message there is, by id and in the order in which they came."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.messages: dict[str, Message] = {}

    def send(self, target: Workspace, caller: str, caller_name: str, text: str) -> Message:
        """Accept a message."""
        kind, now, message_id = caller.partition(":")[0], self._clock.time(), ids.uuid7()
        part: JSONObject = {"kind": "text", "text": text}
        content: JSONObject = {"role": "user", "messageId": ids.uuid7(), "parts": [part]}
        status: JSONObject = {"state": "TASK_STATE_SUBMITTED", "timestamp": moment(now)}
        message = Message(
            id=message_id,
            seq=len(self.messages) + 1,
            activity_id=ids.uuid7(),
            target_id=target.id,
            caller=caller,
            caller_name=caller_name,
            content=content,
            priority=PRIORITIES[kind],
            created_at=now,
            waits_until=now + WAITS_SECONDS,
            run_limit=RUNS_SECONDS[kind],
            task={"id": message_id, "contextId": message_id, "status": status},
        )
        message.deadline_at = message.waits_until
        self.messages[message.id] = message
        self._clock.changed.notify_all()
        return message

    def of(self, workspace_id: str) -> list[Message]:
        """The messages of one workspace, oldest first."""
        return [message for message in self.messages.values() if message.target_id == workspace_id]

    def pending(self, workspace_id: str) -> int:
        """How many have no outcome yet."""
        return sum(message.is_open for message in self.of(workspace_id))

    def counts(self, workspace_id: str) -> JSONObject:
        """How many wait, are leased, and are dead letters."""
        mine = self.of(workspace_id)
        return {
            "pending": sum(message.status == "accepted" for message in mine),
            "leased": sum(message.status == "leased" for message in mine),
            "dead": sum(message.dead_letter for message in mine),
        }

    def addressed(self, workspace: Workspace, name: str) -> Message:
        """The message of that id, or of that activity row, to this workspace."""
        for message in self.of(workspace.id):
            if name in (message.id, message.activity_id):
                return message
        raise RequestRejected("message-not-found", f"there is no message {name} here")

    # What time does

    def catch_up(self) -> None:
        """Let deadlines and leases end whose time has come."""
        now = self._clock.time()
        for message in [one for one in self.messages.values() if one.is_open]:
            if message.deadline_at <= now:
                sentence = "the deadline passed before the agent answered"
                self.end(message, "expired", failure("deadline-exceeded", sentence))
            elif message.lease_expires_at is not None and message.lease_expires_at <= now:
                self._lapse(message, now)

    def _lapse(self, message: Message, now: float) -> None:
        if message.attempts >= message.max_attempts:
            sentence = "every worker that took the message let its lease run out"
            self.end(message, "failed", failure("no-reply", sentence), dead_letter=True)
        else:
            self._offer_again(message, now, failure("lease-lost", "the lease ran out", retryable=True))

    # Handing out

    def lease(self, workspace: Workspace, lease_request: LeaseRequest) -> list[Message]:
        """Claim the next messages: oldest first inside a priority."""
        if workspace.status == "paused":
            return []
        now = self._clock.time()
        ready = [one for one in self.of(workspace.id) if one.status == "accepted" and lease_request.fits(one)]
        ready = [one for one in ready if one.not_before is None or one.not_before <= now]
        ready.sort(key=lambda one: (-_raised(one, now), one.seq))
        for message in ready[: lease_request.limit]:
            self._take(message, lease_request, now)
        return ready[: lease_request.limit]

    def _take(self, message: Message, lease_request: LeaseRequest, now: float) -> None:
        message.status, message.attempts, message.epoch = "leased", message.attempts + 1, message.epoch + 1
        message.lease_token, message.lease_expires_at = new_secret(), now + lease_request.seconds
        message.worker, message.leased_at, message.not_before = lease_request.worker, now, None
        message.deadline_at = now + message.run_limit
        if tasks.state_of(message.task) is tasks.TaskState.SUBMITTED:
            self.tell(message, status_event(message, "working", now))

    def tell(self, message: Message, event: JSONObject) -> None:
        """Add an event to the task of a message."""
        message.task = tasks.fold(message.task, event)
        message.events += 1

    # Taking back

    def release(self, message: Message) -> None:
        """End a lease without an outcome; it costs no attempt."""
        message.attempts -= 1
        message.status = "accepted"
        self._without_lease(message)

    def release_worker(self, workspace_id: str, worker: str) -> None:
        """Give back what a worker held that has ended and was replaced."""
        for message in self.of(workspace_id):
            if message.status == "leased" and message.worker == worker:
                self.release(message)

    def give_back(self, message: Message) -> None:
        """The same for the agent that held it, which is counted: later each time, and not for ever."""
        message.releases += 1
        self.release(message)
        if message.releases >= MAX_RELEASES:
            sentence = (
                f"the agent took the message {message.releases} times"
                " and gave it back each time without an outcome"
            )
            self.end(message, "failed", failure("released-too-often", sentence), dead_letter=True)
            return
        doublings = message.releases - RELEASES_WITHOUT_PAUSE
        pause = min(MAX_RETRY_SECONDS, 2.0**doublings) if doublings > 0 else 0.0
        message.not_before = self._clock.time() + pause

    def fail(self, message: Message, error: JSONObject, delay: float | None) -> None:
        """Give up on this attempt: it is offered again later, or ends as a dead letter."""
        if not error["retryable"] or message.attempts >= message.max_attempts:
            self.end(message, "failed", error | {"retryable": False}, dead_letter=True)
            return
        doubled = min(MAX_RETRY_SECONDS, 2.0**message.attempts)
        self._offer_again(message, self._clock.time() + (doubled if delay is None else delay), error)

    def _offer_again(self, message: Message, at: float, error: JSONObject) -> None:
        message.status, message.not_before, message.error = "accepted", at, error
        self._without_lease(message)

    def _without_lease(self, message: Message) -> None:
        message.lease_token = message.lease_expires_at = message.worker = None
        message.deadline_at = message.waits_until
        self._clock.changed.notify_all()

    def answer(
        self, message: Message, state: str, reply: JSONObject | None, more: JSONObject, *, bare: bool = False
    ) -> None:
        """End a message with what the agent said; `more` are other members of the task."""
        if bare and reply is not None:
            whole: JSONObject = {**reply, "contextId": message.context_id}
            if more:
                whole["metadata"] = {**object_in(reply.get("metadata")), **object_in(more.get("metadata"))}
            message.result = convert.TO_0_3.message(whole)
            self.end(message, "answered", None, task_state=state)
            return
        status: JSONObject = {"state": state_1_0(state), "timestamp": moment(self._clock.time())}
        if reply is not None:
            status["message"] = {**reply, "taskId": message.id, "contextId": message.context_id}
        task: JSONObject = {**more, "id": message.id, "contextId": message.context_id, "status": status}
        if message.task.get("artifacts"):
            task["artifacts"] = message.task["artifacts"]
        message.result = convert.TO_0_3.task(task)
        self.end(message, "answered", None, task_state=state)

    def end(
        self,
        message: Message,
        status: str,
        error: JSONObject | None,
        *,
        dead_letter: bool = False,
        task_state: str | None = None,
    ) -> None:
        """Give a message its outcome."""
        message.status, message.error, message.dead_letter = status, error, dead_letter
        message.task_state = task_state
        message.finished_at, message.lease_expires_at = self._clock.time(), None
        self._clock.changed.notify_all()


def failure(code: str, sentence: str, *, retryable: bool = False) -> JSONObject:
    """What went wrong with a message."""
    return {"code": code, "message": sentence, "retryable": retryable}


def state_1_0(state: str) -> str:
    """A task state as A2A 1.0 writes it."""
    return "TASK_STATE_" + state.upper().replace("-", "_")


def status_event(message: Message, state: str, now: float, reply: JSON = None) -> JSONObject:
    """An A2A event that tells of a status."""
    status: JSONObject = {"state": state_1_0(state), "timestamp": moment(now)}
    if reply is not None:
        status["message"] = reply
    return {"statusUpdate": {"taskId": message.id, "contextId": message.context_id, "status": status}}


def _raised(message: Message, now: float) -> int:
    """A message that waited too long moves up one class."""
    if now - message.created_at < RAISED_AFTER_SECONDS:
        return message.priority
    return next((higher for higher in _CLASSES if higher > message.priority), message.priority)
