"""The routes of an agent about itself: registering, heartbeats, state, secrets, peers."""

from molecule_agent.testing import request_bodies
from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.http_messages import (
    PlatformRequest,
    PlatformResponse,
    RequestRejected,
    RouteCall,
    invalid,
    moment,
    object_in,
    workspace_not_found,
)
from molecule_agent.testing.mailbox import Mailbox
from molecule_agent.testing.organisation import RELATIONS, Organisation, mentions, peer_row
from molecule_agent.testing.records import ALIVE, Workspace
from molecule_agent.testing.request_bodies import BodySchema
from molecule_wire import JSON, JSONObject, ids, jsontext

CLAIM_SECONDS = 86_400.0
LIVENESS_SECONDS, SELF_PACED_SECONDS = 90.0, 300.0
MAX_CARD_BYTES = 256 * 1024
MAX_METADATA_BYTES = 32 * 1024
MAX_PEERS = 500
DELIVERY_MODES = ("push", "poll")
FORGED = ("system:", "webhook:", "channel:", "test:")

_WAITING = ("awaiting_agent", "provisioning", "offline", "failed")
_SICK = ("wedged", "degraded", "auth_lost")

_REGISTER = BodySchema(
    {
        "agent_card": "object",
        "protocols": "array | null",
        **dict.fromkeys(
            (
                "id",
                "workspace_id",
                "url",
                "delivery_mode",
                "enrolment_token",
                "recovery_secret",
                "dispatch_secret",
                "replaces_worker",
            ),
            "str | null",
        ),
    },
    required=("agent_card",),
    closed=False,
)
_HEARTBEAT = BodySchema(
    {
        "workspace_id": "str",
        "error_rate": "float | null",
        "sample_error": "str | null",
        "active_tasks": "int | null",
        "uptime_seconds": "float | null",
        "current_task": "str | null",
        "monthly_spend": "float | null",
        "runtime_state": "str | null",
        "runtime_metadata": "object | null",
    },
    required=("workspace_id",),
    closed=False,
)


class Members:
    """Answers agents about themselves and about those they may call."""

    def __init__(self, organisation: Organisation, mailbox: Mailbox, clock: FakeClock) -> None:
        self._organisation = organisation
        self._mailbox = mailbox
        self._clock = clock

    # Registering

    def register(self, request: PlatformRequest, caller: Workspace | None) -> PlatformResponse:
        """Let an agent in by its token, by a claim or by a proof."""
        body = request_bodies.read(request.body, _REGISTER)
        workspace_id = _named(body)
        card = object_in(body["agent_card"])
        if len(jsontext.encode(card)) > MAX_CARD_BYTES:
            raise invalid("agent_card", f"agent_card is larger than {MAX_CARD_BYTES} bytes")
        mode = _delivery_mode(body)
        if caller is None:
            _check_stranger(request, workspace_id)
        workspace = self._known(workspace_id)
        if caller is not None and caller is not workspace:
            raise RequestRejected("identity-mismatch", "this token belongs to another workspace")
        return self._decide(workspace, body, mode, proven=caller is not None)

    def _decide(self, workspace: Workspace, body: JSONObject, mode: str, *, proven: bool) -> PlatformResponse:
        minted: JSONObject = {}
        if not proven:
            if not self._spends_proof(workspace, body):
                if workspace.claimed:
                    return PlatformResponse(200, _membership(workspace) | {"applied": False})
                self._check_claim(workspace)
            token, recovery = self._organisation.mint(workspace)
            minted = {"auth_token": token, "recovery_secret": recovery}
        self._apply(workspace, body, mode)
        return PlatformResponse(200, _membership(workspace) | minted)

    def _known(self, workspace_id: str) -> Workspace:
        workspace = self._organisation.workspaces.get(workspace_id)
        if workspace is None:
            raise workspace_not_found(workspace_id)
        if workspace.removed_at is not None:
            raise removed(workspace)
        return workspace

    def _spends_proof(self, workspace: Workspace, body: JSONObject) -> bool:
        recovery, enrolment = (
            request_bodies.text(body, "recovery_secret"),
            request_bodies.text(body, "enrolment_token"),
        )
        if not recovery and not enrolment:
            return False
        if recovery and self._organisation.spend_recovery(workspace, recovery):
            return True
        if enrolment and self._organisation.spend_enrolment(workspace, enrolment):
            return True
        raise RequestRejected(
            "enrolment-invalid", "this proof is unknown, used or expired: ask an administrator for a new one"
        )

    def _check_claim(self, workspace: Workspace) -> None:
        if workspace.created_at + CLAIM_SECONDS <= self._clock.time():
            raise RequestRejected(
                "unauthenticated",
                f"workspace {workspace.id} can no longer be claimed: "
                f"an administrator can run `molecule workspace enrol {workspace.id}`",
            )

    def _apply(self, workspace: Workspace, body: JSONObject, mode: str) -> None:
        workspace.agent_card = object_in(body["agent_card"])
        workspace.delivery_mode = mode
        workspace.url = request_bodies.text(body, "url").strip() if mode == "push" else ""
        workspace.claimed = True
        workspace.liveness_expires_at = self._clock.time() + LIVENESS_SECONDS
        if workspace.status in (*_WAITING, *ALIVE):
            workspace.status = "online"
        if worker := request_bodies.text(body, "replaces_worker"):
            self._mailbox.release_worker(workspace.id, worker)

    # Being there

    def heartbeat(self, call: RouteCall) -> PlatformResponse:
        """Hear that an agent lives, and how it is."""
        caller = call.workspace
        body = request_bodies.read(call.request.body, _HEARTBEAT)
        if request_bodies.text(body, "workspace_id").lower() != caller.id:
            raise RequestRejected("identity-mismatch", "workspace_id is not the workspace of this token")
        metadata = object_in(body.get("runtime_metadata"))
        if len(jsontext.encode(metadata)) > MAX_METADATA_BYTES:
            raise invalid("runtime_metadata", f"runtime_metadata is larger than {MAX_METADATA_BYTES} bytes")
        caller.claimed = True
        caller.active_tasks = max(int(request_bodies.number(body, "active_tasks")), 0)
        if body.get("runtime_metadata") is not None:
            caller.needs_restart = metadata.get("restart_required") is True
        capabilities = object_in(metadata.get("capabilities"))
        seconds = SELF_PACED_SECONDS if capabilities.get("heartbeat") is True else LIVENESS_SECONDS
        caller.liveness_expires_at = self._clock.time() + seconds
        caller.status = _after_beat(caller.status, body, capabilities)
        return PlatformResponse(200, self._heard(caller))

    def _heard(self, workspace: Workspace) -> JSONObject:
        return {
            "status": "ok",
            "workspace_status": workspace.status,
            "paused": workspace.status == "paused",
            "pending": self._mailbox.pending(workspace.id),
            "server_time": moment(self._clock.time()),
        }

    def state(self, call: RouteCall) -> PlatformResponse:
        """Whether the agent shall go on."""
        workspace = call.workspace
        state: JSONObject = {
            "workspace_id": workspace.id,
            "status": workspace.status,
            "paused": workspace.status == "paused",
            "deleted": False,
            "pending": self._mailbox.pending(workspace.id),
            "needs_restart": workspace.needs_restart,
        }
        return PlatformResponse(200, state)

    def secrets(self, call: RouteCall) -> PlatformResponse:
        """The secrets of the workspace."""
        values: JSONObject = {**call.workspace.secrets}
        return PlatformResponse(200, values)

    def peers(self, call: RouteCall) -> PlatformResponse:
        """Whom the workspace may call."""
        request, workspace = call.request, call.workspace
        relation = request_bodies.asked_choice(request.query, "relation", RELATIONS)
        limit = int(request_bodies.asked_number(request.query, "limit", 0, 0, MAX_PEERS))
        query = request.query.get("q", "")
        found = [
            (peer, is_a)
            for peer, is_a in self._organisation.peers(workspace)
            if relation in ("", is_a) and (not query or mentions(peer, query))
        ]
        rest = _after(found, request.query.get("cursor", ""))
        page = rest[:limit] if limit else rest
        rows: list[JSON] = [peer_row(peer, is_a, request.base) for peer, is_a in page]
        return PlatformResponse(200, rows, {"X-Next-Cursor": page[-1][0].id} if len(page) < len(rest) else {})


def _after(found: list[tuple[Workspace, str]], cursor: str) -> list[tuple[Workspace, str]]:
    """What follows the page that ended where the cursor says."""
    if not cursor:
        return found
    ids_found = [peer.id for peer, _ in found]
    if cursor not in ids_found:
        raise invalid("cursor", "cursor is not one that a page gave: begin again without it")
    return found[ids_found.index(cursor) + 1 :]


def removed(workspace: Workspace) -> RequestRejected:
    """The workspace is gone for good."""
    return RequestRejected(
        "workspace-removed",
        f"workspace {workspace.id} was removed",
        id=workspace.id,
        removed_at=moment(workspace.removed_at or 0.0),
        hint="create a new workspace; a removed one does not come back",
    )


def gone(workspace_id: str) -> RequestRejected:
    """What `/state` says of an id that is unknown or removed, to anybody who asks."""
    return RequestRejected(
        "workspace-not-found",
        f"there is no workspace {workspace_id[:64]} here",
        workspace_id=workspace_id[:64],
        deleted=True,
        status="removed",
    )


def _named(body: JSONObject) -> str:
    named = (request_bodies.text(body, "id") or request_bodies.text(body, "workspace_id")).lower()
    if not named:
        raise invalid("id", "id is missing: the id of the workspace to register")
    if not ids.is_uuid(named):
        raise RequestRejected("invalid-id", f"{named[:64]} is not a workspace id: it is a UUID")
    return named


def _delivery_mode(body: JSONObject) -> str:
    mode, url = request_bodies.text(body, "delivery_mode"), request_bodies.text(body, "url").strip()
    if mode and mode not in DELIVERY_MODES:
        raise invalid("delivery_mode", f"delivery_mode is one of {', '.join(DELIVERY_MODES)}")
    if not url or url.startswith("remote://"):
        return "poll"
    if not url.startswith(("http://", "https://")):
        raise RequestRejected(
            "invalid-url", "url begins with http://, https:// or remote://, or is empty for polling"
        )
    return mode or "push"


def _check_stranger(request: PlatformRequest, workspace_id: str) -> None:
    for header in ("x-workspace-id", "x-source-workspace-id"):
        named = request.headers.get(header, workspace_id)
        if named.startswith(FORGED):
            raise RequestRejected("forged-identity", "no request may name itself a system identity")
        if named.lower() != workspace_id:
            raise RequestRejected("identity-mismatch", f"{header} is not the workspace that registers")


def _membership(workspace: Workspace) -> JSONObject:
    return {
        "status": "registered",
        "workspace_id": workspace.id,
        "delivery_mode": workspace.delivery_mode,
    }


def _after_beat(status: str, body: JSONObject, capabilities: JSONObject) -> str:
    """The status after a heartbeat; the first rule that applies decides."""
    runtime, errors = request_bodies.text(body, "runtime_state"), request_bodies.number(body, "error_rate")
    if status not in (*_WAITING, *ALIVE) or runtime in ("starting", "stopping"):
        return status
    if status in ALIVE and runtime in _SICK:
        return "degraded"
    if status in _WAITING or capabilities.get("status_mgmt") is True:
        return "online"
    if status == "online":
        return "degraded" if errors >= 0.5 else status
    return "online" if errors < 0.1 and runtime in ("", "ok") else status
