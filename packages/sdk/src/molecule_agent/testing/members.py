"""The routes of an agent about itself: registering, heartbeats, state, secrets, peers."""

from molecule_agent.testing import bodies
from molecule_agent.testing.bodies import Shape
from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.mailbox import Mailbox
from molecule_agent.testing.organisation import RELATIONS, Organisation, mentions, peer_row
from molecule_agent.testing.records import ALIVE, Workspace
from molecule_agent.testing.web import (
    Answered,
    Asked,
    Refused,
    Visit,
    invalid,
    moment,
    object_in,
    workspace_not_found,
)
from molecule_wire import JSON, JSONObject, ids, jsontext

CLAIM_SECONDS = 86_400.0
LIVENESS_SECONDS, SELF_PACED_SECONDS = 90.0, 300.0
CARD_MOST_BYTES = 256 * 1024
METADATA_MOST_BYTES = 32 * 1024
PEERS_MOST = 500
DELIVERY_MODES = ("push", "poll")
FORGED = ("system:", "webhook:", "channel:", "test:")

_WAITING = ("awaiting_agent", "provisioning", "offline", "failed")
_SICK = ("wedged", "degraded", "auth_lost")

_REGISTER = Shape(
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
_HEARTBEAT = Shape(
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

    def register(self, asked: Asked, caller: Workspace | None) -> Answered:
        """Let an agent in by its token, by a claim or by a proof."""
        body = bodies.read(asked.body, _REGISTER)
        workspace_id = _named(body)
        card = object_in(body["agent_card"])
        if len(jsontext.encode(card)) > CARD_MOST_BYTES:
            raise invalid("agent_card", f"agent_card is larger than {CARD_MOST_BYTES} bytes")
        mode = _delivery_mode(body)
        if caller is None:
            _check_stranger(asked, workspace_id)
        workspace = self._known(workspace_id)
        if caller is not None and caller is not workspace:
            raise Refused("identity-mismatch", "this token belongs to another workspace")
        return self._decide(workspace, body, mode, proven=caller is not None)

    def _decide(self, workspace: Workspace, body: JSONObject, mode: str, *, proven: bool) -> Answered:
        minted: JSONObject = {}
        if not proven:
            if not self._spends_proof(workspace, body):
                if workspace.claimed:
                    return Answered(200, _membership(workspace) | {"applied": False})
                self._check_claim(workspace)
            token, recovery = self._organisation.mint(workspace)
            minted = {"auth_token": token, "recovery_secret": recovery}
        self._apply(workspace, body, mode)
        return Answered(200, _membership(workspace) | minted)

    def _known(self, workspace_id: str) -> Workspace:
        workspace = self._organisation.workspaces.get(workspace_id)
        if workspace is None:
            raise workspace_not_found(workspace_id)
        if workspace.removed_at is not None:
            raise removed(workspace)
        return workspace

    def _spends_proof(self, workspace: Workspace, body: JSONObject) -> bool:
        recovery, enrolment = bodies.text(body, "recovery_secret"), bodies.text(body, "enrolment_token")
        if not recovery and not enrolment:
            return False
        if recovery and self._organisation.spend_recovery(workspace, recovery):
            return True
        if enrolment and self._organisation.spend_enrolment(workspace, enrolment):
            return True
        raise Refused(
            "enrolment-invalid", "this proof is unknown, used or expired: ask an administrator for a new one"
        )

    def _check_claim(self, workspace: Workspace) -> None:
        if workspace.created_at + CLAIM_SECONDS <= self._clock.time():
            raise Refused(
                "unauthenticated",
                f"workspace {workspace.id} can no longer be claimed: "
                f"an administrator can run `molecule workspace enrol {workspace.id}`",
            )

    def _apply(self, workspace: Workspace, body: JSONObject, mode: str) -> None:
        workspace.agent_card = object_in(body["agent_card"])
        workspace.delivery_mode = mode
        workspace.url = bodies.text(body, "url").strip() if mode == "push" else ""
        workspace.claimed = True
        workspace.liveness_expires_at = self._clock.time() + LIVENESS_SECONDS
        if workspace.status in (*_WAITING, *ALIVE):
            workspace.status = "online"
        if worker := bodies.text(body, "replaces_worker"):
            self._mailbox.release_worker(workspace.id, worker)

    # Being there

    def heartbeat(self, visit: Visit) -> Answered:
        """Hear that an agent lives, and how it is."""
        caller = visit.workspace
        body = bodies.read(visit.asked.body, _HEARTBEAT)
        if bodies.text(body, "workspace_id").lower() != caller.id:
            raise Refused("identity-mismatch", "workspace_id is not the workspace of this token")
        metadata = object_in(body.get("runtime_metadata"))
        if len(jsontext.encode(metadata)) > METADATA_MOST_BYTES:
            raise invalid("runtime_metadata", f"runtime_metadata is larger than {METADATA_MOST_BYTES} bytes")
        caller.claimed = True
        caller.active_tasks = max(int(bodies.number(body, "active_tasks")), 0)
        if body.get("runtime_metadata") is not None:
            caller.needs_restart = metadata.get("restart_required") is True
        capabilities = object_in(metadata.get("capabilities"))
        seconds = SELF_PACED_SECONDS if capabilities.get("heartbeat") is True else LIVENESS_SECONDS
        caller.liveness_expires_at = self._clock.time() + seconds
        caller.status = _after_beat(caller.status, body, capabilities)
        return Answered(200, self._heard(caller))

    def _heard(self, workspace: Workspace) -> JSONObject:
        return {
            "status": "ok",
            "workspace_status": workspace.status,
            "paused": workspace.status == "paused",
            "pending": self._mailbox.pending(workspace.id),
            "server_time": moment(self._clock.time()),
        }

    def state(self, visit: Visit) -> Answered:
        """Whether the agent shall go on."""
        workspace = visit.workspace
        state: JSONObject = {
            "workspace_id": workspace.id,
            "status": workspace.status,
            "paused": workspace.status == "paused",
            "deleted": False,
            "pending": self._mailbox.pending(workspace.id),
            "needs_restart": workspace.needs_restart,
        }
        return Answered(200, state)

    def secrets(self, visit: Visit) -> Answered:
        """The secrets of the workspace."""
        values: JSONObject = {**visit.workspace.secrets}
        return Answered(200, values)

    def peers(self, visit: Visit) -> Answered:
        """Whom the workspace may call."""
        asked, workspace = visit.asked, visit.workspace
        relation = bodies.asked_choice(asked.query, "relation", RELATIONS)
        limit = int(bodies.asked_number(asked.query, "limit", 0, 0, PEERS_MOST))
        query = asked.query.get("q", "")
        found = [
            (peer, is_a)
            for peer, is_a in self._organisation.peers(workspace)
            if relation in ("", is_a) and (not query or mentions(peer, query))
        ]
        rest = _after(found, asked.query.get("cursor", ""))
        page = rest[:limit] if limit else rest
        rows: list[JSON] = [peer_row(peer, is_a, asked.base) for peer, is_a in page]
        return Answered(200, rows, {"X-Next-Cursor": page[-1][0].id} if len(page) < len(rest) else {})


def _after(found: list[tuple[Workspace, str]], cursor: str) -> list[tuple[Workspace, str]]:
    """What follows the page that ended where the cursor says."""
    if not cursor:
        return found
    ids_found = [peer.id for peer, _ in found]
    if cursor not in ids_found:
        raise invalid("cursor", "cursor is not one that a page gave: begin again without it")
    return found[ids_found.index(cursor) + 1 :]


def removed(workspace: Workspace) -> Refused:
    """The workspace is gone for good."""
    return Refused(
        "workspace-removed",
        f"workspace {workspace.id} was removed",
        id=workspace.id,
        removed_at=moment(workspace.removed_at or 0.0),
        hint="create a new workspace; a removed one does not come back",
    )


def gone(workspace_id: str) -> Refused:
    """What `/state` says of an id that is unknown or removed, to anybody who asks."""
    return Refused(
        "workspace-not-found",
        f"there is no workspace {workspace_id[:64]} here",
        workspace_id=workspace_id[:64],
        deleted=True,
        status="removed",
    )


def _named(body: JSONObject) -> str:
    named = (bodies.text(body, "id") or bodies.text(body, "workspace_id")).lower()
    if not named:
        raise invalid("id", "id is missing: the id of the workspace to register")
    if not ids.is_uuid(named):
        raise Refused("invalid-id", f"{named[:64]} is not a workspace id: it is a UUID")
    return named


def _delivery_mode(body: JSONObject) -> str:
    wanted, url = bodies.text(body, "delivery_mode"), bodies.text(body, "url").strip()
    if wanted and wanted not in DELIVERY_MODES:
        raise invalid("delivery_mode", f"delivery_mode is one of {', '.join(DELIVERY_MODES)}")
    if not url or url.startswith("remote://"):
        return "poll"
    if not url.startswith(("http://", "https://")):
        raise Refused(
            "invalid-url", "url begins with http://, https:// or remote://, or is empty for polling"
        )
    return wanted or "push"


def _check_stranger(asked: Asked, workspace_id: str) -> None:
    for header in ("x-workspace-id", "x-source-workspace-id"):
        named = asked.headers.get(header, workspace_id)
        if named.startswith(FORGED):
            raise Refused("forged-identity", "no request may name itself a system identity")
        if named.lower() != workspace_id:
            raise Refused("identity-mismatch", f"{header} is not the workspace that registers")


def _membership(workspace: Workspace) -> JSONObject:
    return {
        "status": "registered",
        "workspace_id": workspace.id,
        "delivery_mode": workspace.delivery_mode,
    }


def _after_beat(status: str, body: JSONObject, capabilities: JSONObject) -> str:
    """The status after a heartbeat; the first rule that applies decides."""
    runtime, errors = bodies.text(body, "runtime_state"), bodies.number(body, "error_rate")
    if status not in (*_WAITING, *ALIVE) or runtime in ("starting", "stopping"):
        return status
    if status in ALIVE and runtime in _SICK:
        return "degraded"
    if status in _WAITING or capabilities.get("status_mgmt") is True:
        return "online"
    if status == "online":
        return "degraded" if errors >= 0.5 else status
    return "online" if errors < 0.1 and runtime in ("", "ok") else status
