"""Workspaces: the members of the tree and their life."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from molecule_platform.domain.authorisation import org_with, peer_with, self_with, workspace_with
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, NewBody, Query, Schema


class Position(Body):
    """Where a workspace stands on the canvas."""

    x: float = 0.0
    y: float = 0.0


class CreateWorkspace(Body):
    """A new workspace."""

    name: str
    role: str | None = None
    template: str | None = None
    tier: int | None = None
    model: str | None = None
    runtime: str | None = None
    external: bool | None = None
    url: str | None = None
    workspace_dir: str | None = None
    workspace_access: str | None = None
    parent_id: str | None = None
    budget_limit: int | None = None
    secrets: dict[str, str] | None = None
    max_concurrent_tasks: int | None = None
    canvas: Position | None = None
    initial_memories: list[dict[str, Any]] | None = None
    visibility: str | None = None
    hibernation_idle_minutes: int | None = None
    delivery_mode: str | None = None
    claimable: bool | None = None


class ChangeWorkspace(Body):
    """Changes; a missing field stays as it is. From `name` on, only operators may change a field."""

    role: str | UnsetType = UNSET
    collapsed: bool | UnsetType = UNSET
    x: float | UnsetType = UNSET
    y: float | UnsetType = UNSET
    delivery_mode: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    tier: int | UnsetType = UNSET
    parent_id: str | None | UnsetType = UNSET
    runtime: str | UnsetType = UNSET
    workspace_dir: str | None | UnsetType = UNSET
    workspace_access: str | UnsetType = UNSET
    max_concurrent_tasks: int | None | UnsetType = UNSET
    visibility: str | UnsetType = UNSET
    isolated: bool | UnsetType = UNSET
    hibernation_idle_minutes: int | None | UnsetType = UNSET
    budget_limit: Any | UnsetType = UNSET


class WorkspaceChanged(Schema):
    """The changes are made; some reach the agent only when it restarts."""

    status: str
    needs_restart: bool | UnsetType = UNSET


class ShowWorkspace(Query):
    """Whether a removed one is shown too."""

    include_removed: bool = False


class RestartWorkspace(Body):
    """How to restart."""

    template: str | None = None
    apply_template: bool | None = None
    reset: bool | None = None
    rebuild_config: bool | None = None


class RestartQuery(Query):
    """Whether the session is forgotten."""

    reset: bool = False


class WorkspaceRestarted(Schema):
    """What happens now; an external agent is asked to restart itself."""

    status: str
    config_dir: str | UnsetType = UNSET
    reset_session: bool | UnsetType = UNSET
    signal: str | UnsetType = UNSET


class HibernateQuery(Query):
    """Whether work that is under way is taken back."""

    force: bool = False


class WorkspaceStatus(Schema):
    """The status of the workspace now."""

    status: str


class Connection(Schema):
    """Everything an agent's author copies to connect; shown once."""

    workspace_id: str
    name: str
    platform_url: str
    auth_token: str
    registry_endpoint: str
    heartbeat_endpoint: str
    inbox_endpoint: str
    curl_register_template: str
    python_snippet: str
    claude_code_channel_snippet: str


class WorkspaceCreated(Schema):
    """A new workspace; an external one comes with what its agent needs."""

    id: str
    status: str
    external: bool | UnsetType = UNSET
    connection: Connection | UnsetType = UNSET
    awareness_namespace: str | UnsetType = UNSET
    workspace_access: str | UnsetType = UNSET


class PeerRow(Schema):
    """A workspace as its peers see it."""

    id: str
    name: str
    role: str
    tier: int
    status: str
    parent_id: str | None
    org_id: str
    agent_card: dict[str, Any] | None
    card_signature: str
    active_tasks: int
    max_concurrent_tasks: int
    last_error_rate: float
    uptime_seconds: int
    runtime: str
    external: bool
    delivery_mode: str
    visibility: str
    isolated: bool
    workspace_access: str
    last_heartbeat_at: str | None
    last_outbound_at: str | None
    last_activity_at: str | None
    status_reason: str
    capabilities: dict[str, Any] | None
    pending: int
    x: float
    y: float
    collapsed: bool
    created_at: str
    updated_at: str
    provision_timeout_ms: int | UnsetType = UNSET


class WorkspaceRow(PeerRow):
    """A workspace as it and its operators see it; a peer's row lacks what is nobody else's business."""

    url: str | UnsetType = UNSET
    last_sample_error: str | UnsetType = UNSET
    current_task: str | UnsetType = UNSET
    workspace_dir: str | None | UnsetType = UNSET
    budget_limit: int | None | UnsetType = UNSET
    monthly_spend: int | UnsetType = UNSET


class ListWorkspaces(Query):
    """Which workspaces to list."""

    status: str | None = None
    parent_id: str | None = None
    q: str | None = None
    include_removed: bool = False
    limit: Annotated[int, Meta(ge=1, le=500)] = 500
    cursor: str | None = None


class DeleteWorkspace(Query):
    """Whether everything below goes along, and whether the data goes too."""

    confirm: bool = False
    purge: bool = False


class Removed(Schema):
    """What a removal took along."""

    status: str
    cascade_deleted: int


class State(Schema):
    """Whether the agent should go on."""

    workspace_id: str
    status: str
    paused: bool
    deleted: bool
    pending: int
    needs_restart: bool


class Paused(Schema):
    """How many were paused."""

    status: str
    paused_count: int


class Resumed(Schema):
    """How many go on."""

    status: str
    resumed_count: int


class NewEnrolment(NewBody):
    """How long an enrolment token lives."""

    ttl_seconds: int = 3600


class Enrolment(Schema):
    """A single-use token for a replaced machine."""

    enrolment_token: str
    scopes: list[str]
    expires_at: str


_MANAGE = (self_with("ws.manage"), org_with("org.write"))

ROUTES = (
    Route(
        "workspace.create",
        "POST",
        "/workspaces",
        (org_with("org.write"),),
        "Create a workspace.",
        CreateWorkspace,
        reply=WorkspaceCreated,
        status=(201,),
        refusals=("invalid-id", "invalid-url", "workspace-not-found", "parent-paused", "no-provisioner"),
        creates=True,
    ),
    Route(
        "workspace.list",
        "GET",
        "/workspaces",
        (workspace_with(""), org_with("org.read")),
        "The organisation; a workspace sees itself and its peers.",
        query=ListWorkspaces,
        reply=list[WorkspaceRow],
        refusals=("invalid-id",),
    ),
    Route(
        "workspace.show",
        "GET",
        "/workspaces/{id}",
        (self_with(""), peer_with(""), org_with("org.read")),
        "One workspace.",
        query=ShowWorkspace,
        reply=WorkspaceRow,
        removed_too=True,
    ),
    Route(
        "workspace.change",
        "PATCH",
        "/workspaces/{id}",
        _MANAGE,
        "Change some of its fields, or move it in the tree.",
        ChangeWorkspace,
        reply=WorkspaceChanged,
        refusals=("invalid-id", "workspace-not-found", "parent-cycle", "state-conflict"),
    ),
    Route(
        "workspace.delete",
        "DELETE",
        "/workspaces/{id}",
        (org_with("org.write"),),
        "Remove a workspace and all below it.",
        query=DeleteWorkspace,
        reply=Removed,
        refusals=("confirmation-required", "state-conflict", "internal"),
        removed_too=True,
    ),
    Route(
        "workspace.state",
        "GET",
        "/workspaces/{id}/state",
        (self_with("ws.runtime"), org_with("org.read")),
        "Whether the agent should go on.",
        reply=State,
        gone_first=True,
    ),
    Route(
        "workspace.pause",
        "POST",
        "/workspaces/{id}/pause",
        _MANAGE,
        "Pause it and all below it.",
        reply=Paused,
        refusals=("state-conflict",),
    ),
    Route(
        "workspace.resume",
        "POST",
        "/workspaces/{id}/resume",
        (org_with("org.write"),),
        "Undo a pause.",
        reply=Resumed,
        refusals=("not-found", "parent-paused", "state-conflict", "no-provisioner"),
    ),
    Route(
        "workspace.restart",
        "POST",
        "/workspaces/{id}/restart",
        _MANAGE,
        "Restart its agent; an external one is asked to.",
        RestartWorkspace,
        query=RestartQuery,
        reply=WorkspaceRestarted,
        refusals=("parent-paused", "conflict", "state-conflict", "no-provisioner"),
    ),
    Route(
        "workspace.hibernate",
        "POST",
        "/workspaces/{id}/hibernate",
        _MANAGE,
        "Stop its agent until something is wanted of it.",
        query=HibernateQuery,
        reply=WorkspaceStatus,
        refusals=("not-found", "busy", "conflict", "state-conflict", "no-provisioner", "internal"),
    ),
    Route(
        "workspace.wake",
        "POST",
        "/workspaces/{id}/wake",
        (self_with(""), peer_with(""), org_with("org.send")),
        "Wake its agent if it sleeps.",
        reply=WorkspaceStatus,
        status=(200, 202),
        refusals=("conflict", "state-conflict", "no-provisioner"),
    ),
    Route(
        "workspace.enrol",
        "POST",
        "/workspaces/{id}/enrolment-tokens",
        (org_with("org.tokens"),),
        "A single-use token for a replaced machine: it yields what its issuer could mint (org.impersonate).",
        NewEnrolment,
        reply=Enrolment,
        status=(201,),
        creates=True,
    ),
)
