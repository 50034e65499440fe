"""Calls of the registry: register, heartbeat, card, peers, discovery."""

from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from molecule_wire import JSON, JSONObject
from molecule_wire.calls import failures, values

NO_INBOUND = "remote://no-inbound"
TEXT_LIMIT = 1000
DEFAULT_TIER = 2


class Registration(NamedTuple):
    """What the platform answered to a register; empty texts where it gave nothing."""

    auth_token: str = ""
    recovery_secret: str = ""
    applied: bool = True
    delivery_mode: str = ""

    def __repr__(self) -> str:
        return f"Registration(applied={self.applied}, delivery_mode={self.delivery_mode!r})"


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
) -> values.Request:
    """Announce the agent; a proof (enrolment token or recovery secret) is sent only when given."""
    body: JSONObject = {"id": workspace_id, "url": url or NO_INBOUND, "agent_card": agent_card}
    proofs = {
        "enrolment_token": enrolment_token,
        "recovery_secret": recovery_secret,
        "dispatch_secret": dispatch_secret,
    }
    body |= {name: value for name, value in proofs.items() if value}
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
) -> values.Request:
    """Say that the agent lives and what it does; long texts are cut."""
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
    return values.Request("POST", "/registry/heartbeat", json=body)


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
