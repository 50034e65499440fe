"""Requests, as they are validated. Fields that old clients may add are ignored; new routes refuse them."""

from typing import Any

from msgspec import Struct, field


class Body(Struct, kw_only=True):
    """A request body; unknown fields are ignored."""


class NewBody(Body, forbid_unknown_fields=True):
    """A request body of a route that no old client knows; unknown fields are refused."""


class Nothing(Body):
    """No field at all."""


class SignIn(NewBody):
    """A one-time code, or a token to exchange."""

    code: str | None = None
    token: str | None = None


class NewLoginCode(NewBody):
    """Whom to let in, and for how long the link lives."""

    user: str
    role: str = "member"
    org_id: str | None = None
    ttl_seconds: int = 900


class Register(Body):
    """What an agent says of itself."""

    agent_card: dict[str, Any]
    id: str | None = None
    workspace_id: str | None = None
    url: str | None = None
    delivery_mode: str | None = None
    protocols: list[str] | None = None
    enrolment_token: str | None = None
    recovery_secret: str | None = None
    dispatch_secret: str | None = None


class Heartbeat(Body):
    """How an agent is."""

    workspace_id: str
    error_rate: float | None = None
    sample_error: str | None = None
    active_tasks: int | None = None
    uptime_seconds: float | None = None
    current_task: str | None = None
    monthly_spend: float | None = None
    runtime_state: str | None = None
    runtime_metadata: dict[str, Any] | None = None


class UpdateCard(Body):
    """A new agent card."""

    workspace_id: str
    agent_card: dict[str, Any]


class CheckAccess(Body):
    """Two workspaces, or a principal and a workspace."""

    caller_id: str
    target_id: str


class NewGrant(NewBody):
    """A way from one workspace to another, for a while."""

    from_: str = field(name="from")
    to: str
    expires_at: str
    reason: str
    bidirectional: bool = False


class Position(Body):
    """Where a workspace stands on the canvas."""

    x: float = 0.0
    y: float = 0.0


class CreateWorkspace(Body):
    """A new workspace."""

    name: str
    role: str | None = None
    tier: int | None = None
    runtime: str | None = None
    external: bool | None = None
    parent_id: str | None = None
    budget_limit: int | None = None
    secrets: dict[str, str] | None = None
    max_concurrent_tasks: int | None = None
    canvas: Position | None = None
    visibility: str | None = None


class NewEnrolment(NewBody):
    """How long an enrolment token lives."""

    ttl_seconds: int = 3600


class NewToken(Body):
    """What a token is for, and until when."""

    name: str | None = None
    scopes: list[str] | None = None
    ttl_seconds: int | None = None
    expires_at: str | None = None


class RotateToken(NewBody):
    """How long the old token still works."""

    overlap_seconds: int = 300


class PutSecret(Body):
    """A secret value."""

    key: str
    value: str


class Notify(Body):
    """What an agent tells the people of its organisation."""

    message: str
    attachments: list[dict[str, Any]] | None = None
    type: str | None = None


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


class AnswerMessage(NewBody):
    """What an agent says to a message."""

    lease_token: str | None = None
    text: str | None = None
    parts: list[dict[str, Any]] | None = None
    message: dict[str, Any] | None = None
    state: str = "completed"
    artifacts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    evidence: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
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
