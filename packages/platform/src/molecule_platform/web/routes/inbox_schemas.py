"""The inbox: an agent takes its mail under leases, tells how the work goes on, and answers."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from molecule_platform.domain.authorisation import org_with, self_with
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import NewBody, Query, Schema
from molecule_platform.web.routes.messages import MessageRow, Wait

Kind = Literal["message", "reply", "delegation", "delegation_result", "schedule", "channel", "system"]


class PeekInbox(Query):
    """What to show and how much of it, and how long to wait for something."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    wait: Wait = 0
    kind: Kind | None = None
    peer_id: str | None = None
    context_id: str | None = None
    status: Literal["open", "dead"] = "open"


class Mail(Schema):
    """Messages with what an agent needs to handle them, and how many more there are."""

    messages: list[dict[str, Any]]
    pending: int
    leased: int
    dead: int


class LeaseInbox(NewBody):
    """How many messages a worker takes, and for how long."""

    limit: int = 10
    wait: float = 0
    lease: float = 60
    kinds: list[str] = field(default_factory=list[str])
    peer_id: str | None = None
    context_id: str | None = None
    worker: str | None = None
    parallel_contexts: bool = False


class Evidence(Struct, kw_only=True, forbid_unknown_fields=True):
    """What an agent shows for a deliverable of a delegation."""

    deliverable: str
    kind: str
    uri: str | None = None
    text: str | None = None
    sha256: str | None = None
    media_type: str | None = None
    note: str | None = None


class AnswerMessage(NewBody):
    """What an agent says to a message: one of text, parts, message and task.

    Text and parts end its task. A message stays one for a sender who waits for the answer.
    """

    lease_token: str | None = None
    text: str | None = None
    parts: list[dict[str, Any]] | None = None
    message: dict[str, Any] | None = None
    task: dict[str, Any] | None = None
    state: str | None = None
    artifacts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    usage: dict[str, Any] | None = None


class AckMessage(NewBody):
    """The message was handled, nothing to say."""

    lease_token: str | None = None


class FailMessage(NewBody):
    """The attempt failed."""

    lease_token: str | None = None
    error: str | None = None
    reason: str | None = None
    code: str | None = None
    retryable: bool = True
    delay_seconds: float | None = None


class ReleaseMessage(NewBody):
    """The message goes back unstarted."""

    lease_token: str


class ExtendLease(NewBody):
    """The worker needs more time."""

    lease_token: str
    seconds: float = 60


class Extended(Schema):
    """Until when the lease holds now, and whether the sender wants it to end."""

    expires_at: str
    cancel_requested: bool


class ReportProgress(NewBody):
    """How far the work is."""

    lease_token: str
    number: int | None = None
    state: str | None = None
    text: str | None = None
    artifact: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class Reported(Schema):
    """The number of the newest event of the task, and whether the sender wants the work to end."""

    seq: int
    cancel_requested: bool


class Answered(Schema):
    """The message has its outcome."""

    status: str
    message_id: str


class Failed(Schema):
    """Where the message stands after a failed attempt."""

    status: str
    attempts: int
    next_attempt_at: str | None


class Released(Schema):
    """Where the message stands after it was given back, and how often that has happened."""

    status: str
    releases: int
    next_attempt_at: str | None


def _inbox(name: str, verb: str, body: type[NewBody], reply: type[Schema], summary: str) -> Route:
    path = f"/workspaces/{{id}}/inbox/{{message_id}}/{verb}"
    # Evidence may come too late for its delegation, or be too much of it.
    evidence = ("conflict", "state-conflict") if body is AnswerMessage else ()
    return Route(
        name,
        "POST",
        path,
        (self_with("ws.inbox"),),
        summary,
        body,
        reply=reply,
        refusals=("message-not-found", "lease-lost", *evidence),
        limit="a2a" if body in (AnswerMessage, ReportProgress) else "api",
    )


ROUTES = (
    Route(
        "inbox.peek",
        "GET",
        "/workspaces/{id}/inbox",
        (self_with("ws.inbox"), org_with("org.read")),
        "What is open, or dead, without any effect.",
        query=PeekInbox,
        reply=Mail,
    ),
    Route(
        "inbox.lease",
        "POST",
        "/workspaces/{id}/inbox/lease",
        (self_with("ws.inbox"),),
        "Claim the next messages.",
        LeaseInbox,
        reply=Mail,
        quiet=True,
    ),
    _inbox("inbox.extend", "extend", ExtendLease, Extended, "Keep a lease longer."),
    _inbox("inbox.progress", "progress", ReportProgress, Reported, "Tell how the work goes on."),
    _inbox("inbox.answer", "answer", AnswerMessage, Answered, "Answer a message."),
    _inbox("inbox.answer", "reply", AnswerMessage, Answered, "The same as answer."),
    _inbox("inbox.ack", "ack", AckMessage, Answered, "The message was handled, nothing to say."),
    _inbox("inbox.fail", "fail", FailMessage, Failed, "The attempt failed."),
    _inbox("inbox.fail", "nack", FailMessage, Failed, "The same as fail."),
    _inbox("inbox.release", "release", ReleaseMessage, Released, "Give a message back unstarted."),
    Route(
        "inbox.redeliver",
        "POST",
        "/workspaces/{id}/inbox/{message_id}/redeliver",
        (org_with("org.send"),),
        "Give a dead letter all its attempts again.",
        reply=MessageRow,
        status=(202,),
        refusals=("message-not-found", "conflict", "mailbox-full"),
    ),
)
