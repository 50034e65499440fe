"""Calls of the registry: register, heartbeat, card, peers, discovery."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from molecule_wire import JSON, JSONObject
from molecule_wire.calls import failures, values

NO_INBOUND = "remote://no-inbound"
TEXT_LIMIT = 1000
DEFAULT_TIER = 2


RuntimeState: TypeAlias = Literal["", "ok", "starting", "stopping", "wedged", "degraded", "auth_lost"]
DeliveryMode: TypeAlias = Literal["push", "poll"]


class Registration(NamedTuple):
    """What the platform answered to a register; empty texts where it gave nothing."""

    auth_token: str = ""
    recovery_secret: str = ""
    applied: bool = True
    delivery_mode: str = ""

    def __repr__(self) -> str:
        return f"Registration(applied={self.applied}, delivery_mode={self.delivery_mode!r})"


class HeartbeatAnswer(NamedTuple):
    """What the platform thinks of the agent; `server_time` is in seconds since the epoch, 0 when not told."""

    workspace_status: str = ""
    paused: bool = False
    pending: int = 0
    server_time: float = 0.0


@dataclass
class PeerInfo:
    """One workspace that the org tree lets this one talk to."""

    id: str
    name: str
    url: str
    role: str = ""
    tier: int = DEFAULT_TIER
    status: str = "unknown"
    agent_card: JSONObject = field(default_factory=dict[str, JSON])


def register(
    workspace_id: str,
    url: str,
    agent_card: JSONObject,
    *,
    enrolment_token: str = "",
    recovery_secret: str = "",
    dispatch_secret: str = "",
    delivery_mode: DeliveryMode | None = None,
    replaces_worker: str = "",
) -> values.Request:
    """Announce the agent; what is empty is not sent.

    Enrolment token and recovery secret are proofs. The platform shows the dispatch secret when it calls the
    agent. `replaces_worker` names the worker that leased messages before a restart: they are offered again.
    """
    body: JSONObject = {"id": workspace_id, "url": url or NO_INBOUND, "agent_card": agent_card}
    given = {
        "enrolment_token": enrolment_token,
        "recovery_secret": recovery_secret,
        "dispatch_secret": dispatch_secret,
        "delivery_mode": delivery_mode,
        "replaces_worker": replaces_worker,
    }
    body |= {name: value for name, value in given.items() if value}
    return values.Request("POST", "/registry/register", json=body)


def read_registration(reply: values.Reply) -> Registration:
    """Read the answer to `register`."""
    failures.check(reply)
    body = reply.object
    return Registration(
        auth_token=values.text_of(body.get("auth_token")),
        recovery_secret=values.text_of(body.get("recovery_secret")),
        applied=body.get("applied") is not False,
        delivery_mode=values.text_of(body.get("delivery_mode")),
    )


def heartbeat(
    workspace_id: str,
    *,
    current_task: str = "",
    active_tasks: int = 0,
    error_rate: float = 0.0,
    sample_error: str = "",
    uptime_seconds: int = 0,
    runtime_metadata: JSONObject | None = None,
    runtime_state: RuntimeState = "",
    monthly_spend: float = 0.0,
) -> values.Request:
    """Say that the agent lives and what it does; long texts are cut.

    `runtime_metadata` holds the capabilities and `idle_timeout_seconds`; leaving it out clears both. What the
    agent has spent this month is in cents; 0 says nothing.
    """
    body: JSONObject = {
        "workspace_id": workspace_id,
        "current_task": current_task[:TEXT_LIMIT],
        "active_tasks": active_tasks,
        "error_rate": error_rate,
        "sample_error": sample_error[:TEXT_LIMIT],
        "uptime_seconds": uptime_seconds,
    }
    if runtime_metadata is not None:
        body["runtime_metadata"] = runtime_metadata
    if runtime_state:
        body["runtime_state"] = runtime_state
    if monthly_spend:
        body["monthly_spend"] = monthly_spend
    return values.Request("POST", "/registry/heartbeat", json=body)


def read_heartbeat(reply: values.Reply) -> HeartbeatAnswer:
    """Read the answer to `heartbeat`."""
    failures.check(reply)
    body = reply.object
    return HeartbeatAnswer(
        workspace_status=values.text_of(body.get("workspace_status")),
        paused=body.get("paused") is True,
        pending=int(values.number_of(body.get("pending")) or 0),
        server_time=values.moment_of(body.get("server_time")),
    )


def update_card(workspace_id: str, agent_card: JSONObject) -> values.Request:
    """Replace the agent's card."""
    body: JSONObject = {"workspace_id": workspace_id, "agent_card": agent_card}
    return values.Request("POST", "/registry/update-card", json=body)


def peers(workspace_id: str, query: str | None = None) -> values.Request:
    """List the workspaces this one may call, narrowed by a text when given."""
    params = {"q": query} if query else {}
    path = f"/registry/{values.segment(workspace_id)}/peers"
    return values.Request("GET", path, params=params, headers={"X-Workspace-ID": workspace_id})


def read_peers(reply: values.Reply) -> list[PeerInfo]:
    """Read the answer to `peers`; rows without an id are skipped."""
    failures.check(reply)
    return [_peer(row) for row in values.objects_of(reply.body) if values.text_of(row.get("id"))]


def read_peer_rows(reply: values.Reply) -> list[JSONObject]:
    """Read the answer to `peers` as the platform shows the workspaces, with every member."""
    failures.check(reply)
    return [row for row in values.objects_of(reply.body) if values.text_of(row.get("id"))]


def discover(workspace_id: str, target_id: str) -> values.Request:
    """Ask where a peer can be called."""
    path = f"/registry/discover/{values.segment(target_id)}"
    return values.Request("GET", path, headers={"X-Workspace-ID": workspace_id})


def read_discovery(reply: values.Reply) -> str | None:
    """Read the answer to `discover`: an http(s) URL, or `None` for an unknown or unreachable peer."""
    if reply.status == 404:
        return None
    failures.check(reply)
    url = values.text_of(reply.object.get("url"))
    return url if is_web_url(url) else None


def is_web_url(url: str) -> bool:
    """Whether a URL can be called over HTTP at all."""
    return urlsplit(url).scheme in ("http", "https")


def _peer(row: JSONObject) -> PeerInfo:
    tier = row.get("tier")
    return PeerInfo(
        id=values.text_of(row.get("id")),
        name=values.text_of(row.get("name")),
        url=values.text_of(row.get("url")),
        role=values.text_of(row.get("role")),
        tier=tier if isinstance(tier, int) and not isinstance(tier, bool) else DEFAULT_TIER,
        status=values.text_of(row.get("status")) or "unknown",
        agent_card=values.object_of(row.get("agent_card")),
    )
