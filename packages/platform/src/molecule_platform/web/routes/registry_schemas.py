"""The registry: agents join, say how they are, and find one another."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from molecule_platform.domain.authorisation import PUBLIC, org_with, peer_with, self_with, workspace_with
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, Query, Schema


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
    replaces_worker: str | None = None


class Registered(Schema):
    """What registering led to; the token and its recovery secret are shown once, when minted."""

    status: str
    workspace_id: str
    delivery_mode: str
    applied: bool | UnsetType = UNSET
    auth_token: str | UnsetType = UNSET
    recovery_secret: str | UnsetType = UNSET
    card_signature: str | UnsetType = UNSET


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


class HeartbeatReply(Schema):
    """What the platform thinks of the agent."""

    status: str
    workspace_status: str
    paused: bool
    pending: int
    server_time: str


class UpdateCard(Body):
    """A new agent card."""

    workspace_id: str
    agent_card: dict[str, Any]


class Updated(Schema):
    """It is kept."""

    status: str
    card_signature: str | UnsetType = UNSET


class Discovered(Schema):
    """Where a workspace is reached."""

    id: str
    name: str
    url: str
    status: str
    delivery_mode: str
    agent_url: str
    card_url: str


class FindPeers(Query):
    """Which peers to list."""

    q: str | None = None
    relation: Literal["parent", "sibling", "child", "ancestor", "descendant", "grant"] | None = None
    # Without a limit, or with 0, the list is whole: the first clients know no pages.
    limit: Annotated[int, Meta(ge=0, le=500)] = 0
    cursor: str | None = None


class Peer(Schema):
    """A workspace that another one may call."""

    id: str
    name: str
    tier: int
    status: str
    url: str
    parent_id: str | None
    active_tasks: int
    max_concurrent_tasks: int
    role: str
    agent_card: dict[str, Any]
    relation: str
    delivery_mode: str
    agent_url: str


class FindAgents(Query):
    """What the agents looked for have in common; of several tags one suffices."""

    q: str | None = None
    tag: list[str] = field(default_factory=list[str])
    skill: str | None = None
    capability: str | None = None
    role: str | None = None
    status: list[str] = field(default_factory=list[str])
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    cursor: str | None = None


class Agent(Schema):
    """An agent that fits, and how well."""

    id: str
    name: str
    url: str
    card: dict[str, Any]
    role: str
    status: str
    score: int


class UnreadableCard(Schema):
    """An agent whose card no search can read."""

    id: str
    name: str
    problem: str


class Agents(Schema):
    """A page of agents, the best first."""

    agents: list[Agent]
    problems: list[UnreadableCard]
    next_cursor: str | None


ROUTES = (
    Route(
        "registry.register",
        "POST",
        "/registry/register",
        (PUBLIC, self_with("ws.runtime")),
        "Claim a workspace, or say where its agent is now.",
        Register,
        reply=Registered,
        refusals=(
            "unauthenticated",
            "invalid-token",
            "token-revoked",
            "token-expired",
            "enrolment-invalid",
            "identity-mismatch",
            "forged-identity",
            "scope-required",
            "csrf",
            "invalid-id",
            "invalid-url",
            "not-found",
            "workspace-not-found",
            "workspace-removed",
            "state-conflict",
        ),
        tells_removed=True,
    ),
    Route(
        "registry.heartbeat",
        "POST",
        "/registry/heartbeat",
        (self_with("ws.runtime"),),
        "Say that the agent lives, how busy and how well it is.",
        Heartbeat,
        reply=HeartbeatReply,
        refusals=("workspace-not-found", "workspace-removed", "state-conflict"),
        admits_itself=True,
        tells_removed=True,
        quiet=True,
    ),
    Route(
        "registry.card",
        "POST",
        "/registry/update-card",
        (self_with("ws.runtime"),),
        "Replace the agent card.",
        UpdateCard,
        reply=Updated,
        refusals=("workspace-not-found", "workspace-removed"),
        admits_itself=True,
        tells_removed=True,
    ),
    Route(
        "registry.discover",
        "GET",
        "/registry/discover/{id}",
        (peer_with("ws.send"), self_with("ws.send"), org_with("org.read")),
        "Where a workspace is reached, always through the platform.",
        reply=Discovered,
    ),
    Route(
        "registry.peers",
        "GET",
        "/registry/{id}/peers",
        (self_with("ws.send"), org_with("org.read")),
        "The workspaces this one may call.",
        query=FindPeers,
        reply=list[Peer],
    ),
    Route(
        "registry.agents",
        "GET",
        "/registry/agents",
        (workspace_with(""), org_with("org.read"), org_with("org.send")),
        "Search the agents that the caller may reach.",
        query=FindAgents,
        reply=Agents,
        status=(200, 304),
    ),
)
