"""Delegations: work that one asks of another."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from molecule_platform.domain.authorisation import org_with, peer_with, self_with
from molecule_platform.domain.message_access import READERS, STEERERS
from molecule_platform.web.pipeline.route import EVENT_STREAM, Route
from molecule_platform.web.pipeline.schemas import Body, NewBody, Query, Schema

Wait = Annotated[float, Meta(ge=0, le=60)]


class Deliverable(Struct, kw_only=True):
    """Something that must be there when the work is done."""

    name: str
    description: str = ""
    media_type: str | None = None
    required: bool = True


class DelegateTask(Body):
    """What is asked of whom, and by when. Without `target_id` the path names the target."""

    task: str
    target_id: str | None = None
    idempotency_key: str | None = None
    deadline_seconds: float | None = None
    deadline_at: str | None = None
    deliverables: list[Deliverable] = field(default_factory=list[Deliverable])
    context: dict[str, Any] | None = None
    context_id: str | None = None
    parent_delegation_id: str | None = None
    parent_message_id: str | None = None
    priority: int = 50
    report: str = "events"
    max_attempts: int = 3


class NewDelegation(DelegateTask, forbid_unknown_fields=True):
    """The same, and nothing else."""


class Delegated(Schema):
    """The work is accepted, or was before."""

    delegation_id: str
    status: str
    target_id: str
    message_id: str | None | UnsetType = UNSET
    deadline_at: str | UnsetType = UNSET
    idempotent_hit: bool | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class RecordDelegation(Body):
    """Work that an agent handed over by itself."""

    target_id: str
    task: str
    delegation_id: str


class Recorded(Schema):
    """The platform keeps track of it."""

    delegation_id: str
    status: str


class UpdateDelegation(Body):
    """How the work ended, in the words of an agent."""

    status: str
    error: str | None = None
    response_preview: str | None = None


class ListDelegations(Query):
    """Whose, in which role, how they stand, and how many."""

    role: str = "source"
    status: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: str | None = None


class DelegationRow(Schema):
    """One delegation of a list."""

    id: str
    type: str
    delegation_id: str
    source_id: str
    target_id: str
    summary: str
    status: str
    outcome: str | None
    created_at: str
    updated_at: str
    deadline_at: str
    message_id: str | None
    error: str | UnsetType = UNSET
    response_preview: str | UnsetType = UNSET


class AwaitDelegation(Query):
    """How long to wait for the outcome."""

    wait: Wait = 0


class Delegation(Schema):
    """All there is to know of a delegation, with its full result."""

    delegation_id: str
    source: str
    source_id: str
    target_id: str
    task: str
    status: str
    outcome: str | None
    message_id: str | None
    parent_delegation_id: str | None
    retry_of: str | None
    recorded: bool
    depth: int
    chain: list[str]
    deadline_at: str
    deliverables: list[dict[str, Any]]
    evidence: list[dict[str, Any]]
    incomplete: bool
    missing: list[str]
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    attempts: int
    created_at: str
    updated_at: str
    dispatched_at: str | None
    finished_at: str | None
    reported_at: str | None


class FollowDelegation(Query):
    """Where to begin; without it at the beginning."""

    since: str | None = None


class CancelDelegation(NewBody):
    """Why it is called off."""

    reason: str | None = None


class ShowEvidence(NewBody):
    """What somebody shows for a deliverable."""

    deliverable: str
    kind: str
    uri: str | None = None
    text: str | None = None
    sha256: str | None = None
    media_type: str | None = None
    note: str | None = None


class EvidenceShown(Schema):
    """It is kept."""

    evidence_id: str


_SEND = (self_with("ws.send"), org_with("org.send"))
_READ = (self_with("ws.send"), org_with("org.read"))
_UNKNOWN = ("delegation-not-found",)
_MAY_REFUSE = (
    "invalid-id",
    "workspace-removed",
    "hierarchy-denied",
    "delegation-not-found",
    "delegation-limit",
    "idempotency-conflict",
    "budget-exceeded",
    "mailbox-full",
)

ROUTES = (
    Route(
        "delegation.create",
        "POST",
        "/workspaces/{id}/delegate",
        (self_with("ws.send"), peer_with("ws.send"), org_with("org.send")),
        "Ask a workspace to do something: from this one to `target_id`, or from the caller to this one.",
        DelegateTask,
        reply=Delegated,
        status=(200, 202),
        refusals=_MAY_REFUSE,
    ),
    Route(
        "delegation.create",
        "POST",
        "/workspaces/{id}/delegations",
        _SEND,
        "Ask another workspace to do something.",
        NewDelegation,
        reply=Delegated,
        status=(200, 202),
        refusals=_MAY_REFUSE,
    ),
    Route(
        "delegation.list",
        "GET",
        "/workspaces/{id}/delegations",
        _READ,
        "The delegations of a workspace, newest first.",
        query=ListDelegations,
        reply=list[DelegationRow],
    ),
    Route(
        "delegation.show",
        "GET",
        "/delegations/{delegation_id}",
        READERS,
        "A delegation with its full result, for its parties and the organisation's readers.",
        query=AwaitDelegation,
        reply=Delegation,
        refusals=_UNKNOWN,
    ),
    Route(
        "delegation.show",
        "GET",
        "/workspaces/{id}/delegations/{delegation_id}",
        READERS,
        "The same as /delegations/{delegation_id}, for one of this workspace.",
        query=AwaitDelegation,
        reply=Delegation,
        refusals=_UNKNOWN,
    ),
    Route(
        "delegation.stream",
        "GET",
        "/delegations/{delegation_id}/events",
        READERS,
        "What happens to a delegation, from its beginning, as server-sent events.",
        query=FollowDelegation,
        reply=str,
        media=EVENT_STREAM,
        refusals=_UNKNOWN,
        stream=True,
    ),
    Route(
        "delegation.cancel",
        "POST",
        "/delegations/{delegation_id}/cancel",
        STEERERS,
        "Call off a delegation and all that came of it, as its source or with org.send.",
        CancelDelegation,
        reply=Delegation,
        refusals=("delegation-not-found", "not-cancelable"),
    ),
    Route(
        "delegation.show-evidence",
        "POST",
        "/delegations/{delegation_id}/evidence",
        STEERERS,
        "Show something for a deliverable, as a party or with org.send.",
        ShowEvidence,
        reply=EvidenceShown,
        status=(201,),
        refusals=("delegation-not-found", "state-conflict", "conflict"),
        creates=True,
    ),
    Route(
        "delegation.record",
        "POST",
        "/workspaces/{id}/delegations/record",
        (self_with("ws.send"),),
        "Keep track of work that this workspace handed over by itself.",
        RecordDelegation,
        reply=Recorded,
        status=(202,),
        refusals=("hierarchy-denied", "delegation-limit", "idempotency-conflict"),
    ),
    Route(
        "delegation.update",
        "POST",
        "/workspaces/{id}/delegations/{delegation_id}/update",
        (self_with("ws.send"),),
        "Say how a delegation ended: as its target, or as its source if it was only recorded.",
        UpdateDelegation,
        reply=Recorded,
        refusals=("delegation-not-found", "state-conflict"),
    ),
)
