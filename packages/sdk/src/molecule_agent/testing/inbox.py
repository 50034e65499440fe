"""The routes of the inbox: look, lease, keep the lease, settle."""

from collections.abc import Sequence
from typing import cast

from molecule_agent.testing import answers, request_bodies, views
from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.http_messages import (
    PlatformRequest,
    PlatformResponse,
    RequestRejected,
    RouteCall,
    invalid,
    moment,
    moment_or_none,
    object_in,
)
from molecule_agent.testing.mailbox import LeaseRequest, Mailbox, failure, status_event
from molecule_agent.testing.organisation import Organisation
from molecule_agent.testing.records import Message, Workspace
from molecule_agent.testing.request_bodies import BodySchema
from molecule_wire import JSON, JSONObject, errors
from molecule_wire.a2a import convert, tasks

MAX_WAIT_SECONDS, MIN_LEASE_SECONDS, MAX_LEASE_SECONDS, MAX_LIMIT = 60.0, 10.0, 3600.0, 100
RENEWED_SECONDS = 60.0
MAX_DELAY_SECONDS = 3600.0
MAX_ERROR_LENGTH = 4000
KINDS = ("message", "reply", "delegation", "delegation_result", "schedule", "channel", "system")
PROGRESS_STATES = ("working", "submitted")

_LEASE = BodySchema(
    {
        "limit": "int",
        "wait": "float",
        "lease": "float",
        "kinds": "array",
        "peer_id": "str | null",
        "context_id": "str | null",
        "worker": "str | null",
        "parallel_contexts": "bool",
    }
)
_ANSWER = BodySchema(
    {
        "lease_token": "str | null",
        "text": "str | null",
        "parts": "array | null",
        "message": "object | null",
        "task": "object | null",
        "state": "str | null",
        "artifacts": "array",
        "evidence": "array",
        "usage": "object | null",
    }
)
_ACK = BodySchema({"lease_token": "str | null"})
_FAIL = BodySchema(
    {
        **dict.fromkeys(("lease_token", "error", "reason", "code"), "str | null"),
        "retryable": "bool",
        "delay_seconds": "float | null",
    }
)
_RELEASE = BodySchema({"lease_token": "str"}, required=("lease_token",))
_EXTEND = BodySchema({"lease_token": "str", "seconds": "float"}, required=("lease_token",))
_PROGRESS = BodySchema(
    {
        "lease_token": "str",
        "number": "int | null",
        "state": "str | null",
        "text": "str | null",
        "artifact": "object | null",
        "metadata": "object | null",
    },
    required=("lease_token",),
)


class Inbox:
    """Answers the inbox routes of one organisation."""

    def __init__(self, organisation: Organisation, mailbox: Mailbox, clock: FakeClock) -> None:
        self._organisation = organisation
        self._mailbox = mailbox
        self._clock = clock

    # Handing out

    def peek(self, call: RouteCall) -> PlatformResponse:
        """What is open, or dead, without any effect; with a wait, as soon as there is something."""
        request, workspace = call.request, call.workspace
        limit = int(request_bodies.asked_number(request.query, "limit", 10, 1, MAX_LIMIT))
        wait = request_bodies.asked_number(request.query, "wait", 0, 0, MAX_WAIT_SECONDS)
        request_bodies.asked_choice(request.query, "kind", KINDS)
        request_bodies.asked_choice(request.query, "status", ("open", "dead"))

        def look() -> list[Message] | None:
            self._mailbox.catch_up()
            return [] if request.left() else self._found(request, workspace)[:limit] or None

        found = self._clock.wait_for(look, wait) or []
        return PlatformResponse(200, self._page(workspace, found, request.base, leased=False))

    def _found(self, request: PlatformRequest, workspace: Workspace) -> list[Message]:
        kinds = tuple(filter(None, (request.query.get("kind"),)))
        peer_id, context_id = (request.query.get(name, "") for name in ("peer_id", "context_id"))
        lease_request = LeaseRequest(
            MAX_LIMIT, 0, kinds=kinds, peer_id=peer_id.lower(), context_id=context_id
        )
        mine = [message for message in self._mailbox.of(workspace.id) if lease_request.fits(message)]
        if request.query.get("status") == "dead":
            return [message for message in reversed(mine) if message.dead_letter]
        return sorted((one for one in mine if one.is_open), key=lambda one: (-one.priority, one.seq))

    def lease(self, call: RouteCall) -> PlatformResponse:
        """Claim the next messages; waits for one when there is none yet."""
        request, workspace = call.request, call.workspace
        body = request_bodies.read(request.body, _LEASE)
        lease_request = LeaseRequest(
            limit=int(
                request_bodies.bounded("limit", request_bodies.number(body, "limit", 10), 1, MAX_LIMIT)
            ),
            seconds=request_bodies.bounded(
                "lease", request_bodies.number(body, "lease", 60), MIN_LEASE_SECONDS, MAX_LEASE_SECONDS
            ),
            worker=request_bodies.text(body, "worker"),
            kinds=tuple(str(kind) for kind in cast("list[JSON]", body.get("kinds", []))),
            peer_id=request_bodies.text(body, "peer_id"),
            context_id=request_bodies.text(body, "context_id"),
        )

        def look() -> list[Message] | None:
            self._mailbox.catch_up()
            return [] if request.left() else self._mailbox.lease(workspace, lease_request) or None

        wait = min(max(request_bodies.number(body, "wait"), 0.0), MAX_WAIT_SECONDS)
        leased = self._clock.wait_for(look, wait) or []
        return PlatformResponse(200, self._page(workspace, leased, request.base, leased=True))

    def _page(self, workspace: Workspace, found: Sequence[Message], base: str, *, leased: bool) -> JSONObject:
        known = self._organisation.workspaces
        items: list[JSON] = [
            views.inbox_item(message, known.get(message.peer_id), base, leased=leased) for message in found
        ]
        return {"messages": items, **self._mailbox.counts(workspace.id)}

    # Keeping and settling

    def extend(self, call: RouteCall) -> PlatformResponse:
        """Keep a lease longer, never past the deadline."""
        body = request_bodies.read(call.request.body, _EXTEND)
        seconds = request_bodies.bounded(
            "seconds", request_bodies.number(body, "seconds", 60), 1, MAX_LEASE_SECONDS
        )
        message = self._held(call, body)
        until = min(self._clock.time() + seconds, message.deadline_at)
        message.lease_expires_at = until
        return PlatformResponse(
            200, {"expires_at": moment(until), "cancel_requested": message.cancel_requested}
        )

    def progress(self, call: RouteCall) -> PlatformResponse:
        """Add to the message's task and renew the lease."""
        body = request_bodies.read(call.request.body, _PROGRESS)
        state = request_bodies.text(body, "state")
        if state and state not in PROGRESS_STATES:
            raise invalid(
                "state",
                f"state is one of {', '.join(PROGRESS_STATES)}: others end a message, so send an answer",
            )
        artifact = None if body.get("artifact") is None else object_in(body["artifact"])
        if artifact is not None:
            answers.check_artifact(artifact)
        message = self._held(call, body)
        number = (message.epoch, int(request_bodies.number(body, "number")))
        if number[1] == 0 or number > message.last_report:
            self._tell(message, body, state, artifact)
            message.last_report = max(message.last_report, number)
        renewed = max(message.lease_expires_at or 0.0, self._clock.time() + RENEWED_SECONDS)
        message.lease_expires_at = min(renewed, message.deadline_at)
        return PlatformResponse(200, {"seq": message.events, "cancel_requested": message.cancel_requested})

    def _tell(self, message: Message, body: JSONObject, state: str, artifact: JSONObject | None) -> None:
        if artifact is not None:
            self._tell_artifact(message, artifact)
        if state or body.get("text") is not None or body.get("metadata"):
            reply = None if body.get("text") is None else answers.message_of([{"text": body["text"]}])
            now = self._clock.time()
            self._mailbox.tell(message, status_event(message, state or "working", now, reply))

    def _tell_artifact(self, message: Message, body: JSONObject) -> None:
        artifact = {name: value for name, value in body.items() if name not in ("append", "lastChunk")}
        update: JSONObject = {
            "taskId": message.id,
            "contextId": message.context_id,
            "artifact": convert.FROM_0_3.artifact(artifact),
            "append": body.get("append") is True,
            "lastChunk": body.get("lastChunk") is True,
        }
        try:
            self._mailbox.tell(message, {"artifactUpdate": update})
        except tasks.EventRefused as refused:
            raise invalid("artifact", refused.message) from refused

    def answer(self, call: RouteCall) -> PlatformResponse:
        """Settle with what the agent said; saying the same again is harmless."""
        body = request_bodies.read(call.request.body, _ANSWER)
        task = convert.FROM_0_3.task(object_in(body["task"])) if body.get("task") is not None else None
        reply, state = answers.answer_of(body, task)
        answers.check_state(state, answers.TASK_STATES if task is not None else answers.STATES)
        message = self._mailbox.addressed(call.workspace, call.name)
        self._mailbox.catch_up()
        bare = answers.stays_message(message, body, state)
        if not answers.is_same(message, reply, state, bare=bare):
            _check_lease(message, body)
            for artifact in answers.artifacts_of(body, task):
                self._tell_artifact(message, artifact)
            self._mailbox.answer(message, state, reply, answers.more_of(body, task), bare=bare)
        return PlatformResponse(200, {"status": "answered", "message_id": message.id})

    def ack(self, call: RouteCall) -> PlatformResponse:
        """Settle without words."""
        body = request_bodies.read(call.request.body, _ACK)
        message = self._mailbox.addressed(call.workspace, call.name)
        self._mailbox.catch_up()
        if message.status != "answered":
            _check_lease(message, body)
            self._mailbox.answer(message, "completed", None, {})
        return PlatformResponse(200, {"status": "answered", "message_id": message.id})

    def fail(self, call: RouteCall) -> PlatformResponse:
        """Give up on this attempt."""
        body = request_bodies.read(call.request.body, _FAIL)
        sentence = request_bodies.text(body, "error") or request_bodies.text(body, "reason")
        sentence = (sentence or "the agent could not handle the message")[:MAX_ERROR_LENGTH]
        code = request_bodies.text(body, "code")
        retryable = body.get("retryable") is not False
        error = failure(errors.of_agent(code), sentence, retryable=retryable)
        delay = body.get("delay_seconds")
        message = self._held(call, body)
        asked_delay = None if delay is None else min(max(cast(float, delay), 0.0), MAX_DELAY_SECONDS)
        self._mailbox.fail(message, error, asked_delay)
        return PlatformResponse(200, {**_standing(message), "attempts": message.attempts})

    def release(self, call: RouteCall) -> PlatformResponse:
        """Give a message back unstarted."""
        body = request_bodies.read(call.request.body, _RELEASE)
        message = self._held(call, body)
        self._mailbox.give_back(message)
        return PlatformResponse(200, {**_standing(message), "releases": message.releases})

    def _held(self, call: RouteCall, body: JSONObject) -> Message:
        message = self._mailbox.addressed(call.workspace, call.name)
        self._mailbox.catch_up()
        _check_lease(message, body)
        return message


def _check_lease(message: Message, body: JSONObject) -> None:
    """Let in the holder of the current lease, or anyone of the workspace while nobody holds one."""
    token = body.get("lease_token")
    if not message.is_open:
        raise _lost(message, f"the message has already ended: {message.status}")
    if token is None and message.lease_token is not None:
        raise _lost(message, "a worker holds this message: show its lease_token")
    if token is not None and token != message.lease_token:
        raise _lost(message, "this lease is over: the message was offered again")


def _standing(message: Message) -> JSONObject:
    """Whether the message waits again, and until when."""
    return {"status": message.status, "next_attempt_at": moment_or_none(message.not_before)}


def _lost(message: Message, sentence: str) -> RequestRejected:
    return RequestRejected("lease-lost", sentence, status=message.status)
