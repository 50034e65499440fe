"""Workspaces: create, look, pause, resume, remove."""

from typing import Any

from molecule_platform.api import shapes
from molecule_platform.api.calls import Call, Handler, Reply
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.services.directory import Directory
from molecule_platform.services.lifecycle import ENROLMENT_LONGEST, Created, Lifecycle, Plan
from molecule_wire import ids, times

LIST_MOST = 500


class WorkspaceRoutes:
    """Serves /workspaces and what belongs to one workspace's life."""

    def __init__(self, lifecycle: Lifecycle, directory: Directory) -> None:
        self._lifecycle = lifecycle
        self._directory = directory

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "workspace.create": self.create,
            "workspace.list": self.listing,
            "workspace.show": self.show,
            "workspace.delete": self.delete,
            "workspace.state": self.state,
            "workspace.pause": self.pause,
            "workspace.resume": self.resume,
            "workspace.enrol": self.enrol,
        }

    async def create(self, call: Call) -> Reply:
        """A new workspace, with everything its agent needs to connect."""
        created = await self._lifecycle.create(_plan(call.body), call.principal)
        body = {
            "id": created.workspace.id,
            "external": True,
            "status": created.workspace.status,
            "connection": connection(created, call.base_url),
        }
        return Reply(body, 201)

    async def listing(self, call: Call) -> Reply:
        """The organisation, a page at a time."""
        limit = int(call.number("limit", LIST_MOST, 1, LIST_MOST))
        rows = await self._directory.listing(call.principal, dict(call.query))
        after = call.query.get("cursor")
        if after:
            known = [row["id"] for row in rows]
            if after not in known:
                raise invalid("cursor", "cursor is unknown, or its workspace is gone: begin again")
            rows = rows[known.index(after) + 1 :]
        more = (("x-next-cursor", rows[limit - 1]["id"]),) if len(rows) > limit else ()
        return Reply(rows[:limit], 200, more)

    async def show(self, call: Call) -> Reply:
        """One workspace."""
        return Reply(await self._directory.row(call.principal, call.workspace))

    async def state(self, call: Call) -> Reply:
        """Whether the agent should go on."""
        return Reply(await self._directory.state(call.workspace))

    async def pause(self, call: Call) -> Reply:
        """Pause it and all below it."""
        return Reply({"status": "paused", "paused_count": await self._lifecycle.pause(call.workspace)})

    async def resume(self, call: Call) -> Reply:
        """Undo a pause."""
        return Reply(
            {"status": "awaiting_agent", "resumed_count": await self._lifecycle.resume(call.workspace)}
        )

    async def delete(self, call: Call) -> Reply:
        """Remove it and all below it; a parent asks for confirmation first."""
        if call.query.get("purge") in ("1", "true"):
            raise Refusal("not-implemented", "purge is not served yet: delete without it keeps the history")
        confirmed = call.query.get("confirm") in ("1", "true")
        removal = await self._lifecycle.remove(call.workspace, confirmed)
        return Reply({"status": "removed", "cascade_deleted": removal.removed - 1})

    async def enrol(self, call: Call) -> Reply:
        """A single-use token for a replaced machine."""
        body: shapes.NewEnrolment = call.body
        most = int(ENROLMENT_LONGEST.total_seconds())
        if not 1 <= body.ttl_seconds <= most:
            raise invalid("ttl_seconds", f"ttl_seconds is between 1 and {most}")
        token, expires_at = await self._lifecycle.new_enrolment(call.workspace, body.ttl_seconds)
        return Reply({"enrolment_token": token, "expires_at": times.format_time(expires_at)}, 201)


def _plan(body: shapes.CreateWorkspace) -> Plan:
    external = body.external is True or body.runtime in (None, "external")
    if body.parent_id is not None and not ids.is_uuid(body.parent_id):
        raise Refusal("invalid-id", "parent_id is not a workspace id: it is a UUID")
    position = body.canvas or shapes.Position()
    return Plan(
        name=body.name,
        role=body.role or "",
        tier=2 if body.tier is None else body.tier,
        runtime="external" if external else str(body.runtime),
        parent_id=None if body.parent_id is None else body.parent_id.lower(),
        budget_limit=body.budget_limit,
        max_concurrent_tasks=1 if body.max_concurrent_tasks is None else body.max_concurrent_tasks,
        visibility=body.visibility or "private",
        x=position.x,
        y=position.y,
        secrets=body.secrets or {},
    )


def connection(created: Created, base_url: str) -> dict[str, Any]:
    """Everything an agent's author copies to connect; shown once."""
    workspace = created.workspace
    return {
        "workspace_id": workspace.id,
        "platform_url": base_url,
        "auth_token": created.auth_token,
        "registry_endpoint": f"{base_url}/registry/register",
        "heartbeat_endpoint": f"{base_url}/registry/heartbeat",
        "inbox_endpoint": f"{base_url}/workspaces/{workspace.id}/inbox",
        "curl_register_template": _curl(workspace, base_url),
        "python_snippet": _python(workspace, base_url),
        "claude_code_channel_snippet": _channel(workspace, base_url),
    }


def _curl(workspace: Workspace, base_url: str) -> str:
    body = f'{{"id":"{workspace.id}","url":"","agent_card":{{"name":"{workspace.name}"}}}}'
    return (
        f"curl -X POST {base_url}/registry/register -H 'Authorization: Bearer <auth_token>' "
        f"-H 'Content-Type: application/json' -d '{body}'"
    )


def _python(workspace: Workspace, base_url: str) -> str:
    return (
        "from molecule_agent import InboxDelivery, RemoteAgentClient\n\n"
        f'agent = RemoteAgentClient(workspace_id="{workspace.id}", platform_url="{base_url}")\n'
        'agent.save_token("<auth_token>")\n'
        'agent.run_agent_loop(lambda message, client: f"You said: {message.text}", InboxDelivery(agent))\n'
    )


def _channel(workspace: Workspace, base_url: str) -> str:
    return (
        f"MOLECULE_PLATFORM_URL={base_url} MOLECULE_WORKSPACE_ID={workspace.id} "
        "MOLECULE_WORKSPACE_TOKEN=<auth_token> molecule-agent connect --handler your_module:handle"
    )
