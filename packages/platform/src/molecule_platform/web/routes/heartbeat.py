"""The heartbeat door."""

from molecule_platform.domain import authorisation
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.lifecycle import HeartbeatReport
from molecule_platform.domain.workspaces import invalid
from molecule_platform.services.workspaces.heartbeats import Heartbeats
from molecule_platform.web.pipeline.calls import Call, Response
from molecule_platform.web.routes import registry_schemas as shapes
from molecule_wire import jsontext

METADATA_MOST_BYTES = 32 * 1024


class HeartbeatHandler:
    """Serves POST /registry/heartbeat."""

    def __init__(self, heartbeats: Heartbeats) -> None:
        self._heartbeats = heartbeats

    async def handle(self, call: Call) -> Response:
        """Take a heartbeat of the token's own workspace."""
        body: shapes.Heartbeat = call.body
        workspace_id = own_workspace(call, body.workspace_id)
        if body.runtime_metadata and len(jsontext.encode(body.runtime_metadata)) > METADATA_MOST_BYTES:
            raise invalid("runtime_metadata", f"runtime_metadata is larger than {METADATA_MOST_BYTES} bytes")
        heard = await self._heartbeats.beat(workspace_id, _beat(body))
        return Response(heard.body())


def own_workspace(call: Call, named: str) -> str:
    """The workspace that the body names, when it is the token's own."""
    named = named.lower()
    if call.principal.workspace_id is None:
        raise ApiError("forbidden", "only a workspace token may do this")
    if call.principal.workspace_id != named:
        raise ApiError("identity-mismatch", "workspace_id is not the workspace of this token")
    if not call.principal.may("ws.runtime"):
        raise authorisation.scope_required(list(call.route.who))
    return named


def _beat(body: shapes.Heartbeat) -> HeartbeatReport:
    return HeartbeatReport(
        error_rate=body.error_rate or 0.0,
        sample_error=body.sample_error or "",
        active_tasks=body.active_tasks or 0,
        uptime_seconds=int(body.uptime_seconds or 0),
        current_task=body.current_task or "",
        monthly_spend=int(body.monthly_spend or 0),
        runtime_state=body.runtime_state or "",
        runtime_metadata=body.runtime_metadata,
    )
