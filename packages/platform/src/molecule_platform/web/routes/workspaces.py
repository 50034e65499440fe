"""Workspaces: create, look, change, pause, resume, restart, put to sleep, wake, remove."""

from importlib import resources
from typing import Any

from msgspec import UNSET

from molecule_platform.domain import addresses, errors
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import STATUSES, Workspace, check_choice, invalid
from molecule_platform.services.identity.authorizer import removed_at
from molecule_platform.services.workspaces.directory import Directory, DirectoryQuery
from molecule_platform.services.workspaces.lifecycle_services import LifecycleServices
from molecule_platform.services.workspaces.workspace_creation import CreatedWorkspace, NewWorkspace
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.paging import next_cursor
from molecule_platform.web.routes import workspaces_schemas as shapes
from molecule_wire import ids

JOIN_PROGRAM = (resources.files("molecule_platform") / "demo" / "hello.py").read_text(encoding="utf-8")
"""How an agent joins: the one text of it, which the pages and the canvas show as well."""


class WorkspaceHandlers:
    """Serves /workspaces and what belongs to one workspace's life."""

    def __init__(self, lifecycle_services: LifecycleServices, directory: Directory) -> None:
        self._lifecycle_services = lifecycle_services
        self._directory = directory

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "workspace.create": self.create,
            "workspace.list": self.listing,
            "workspace.show": self.show,
            "workspace.change": self.change,
            "workspace.delete": self.delete,
            "workspace.state": self.state,
            "workspace.pause": self.pause,
            "workspace.resume": self.resume,
            "workspace.restart": self.restart,
            "workspace.hibernate": self.hibernate,
            "workspace.wake": self.wake,
        }

    async def create(self, call: Call) -> Response:
        """A new workspace; an external one with everything its agent needs to connect."""
        created = await self._lifecycle_services.creation.create(_plan(call.body), call.principal)
        workspace = created.workspace
        body: dict[str, Any] = {"id": workspace.id, "status": workspace.status}
        if workspace.external:
            body |= {"external": True, "connection": connection(created, call.base_url)}
        else:
            body["awareness_namespace"] = workspace.awareness_namespace
            body["workspace_access"] = workspace.workspace_access
        return Response(body, 201)

    async def listing(self, call: Call) -> Response:
        """The organisation, a page at a time."""
        asked: shapes.ListWorkspaces = call.query_params
        if asked.parent_id is not None and not ids.is_uuid(asked.parent_id):
            raise ApiError("invalid-id", "parent_id is not a workspace id: it is a UUID")
        wanted = DirectoryQuery(
            limit=asked.limit,
            cursor=asked.cursor,
            q=asked.q,
            status=None if asked.status is None else check_choice("status", asked.status, STATUSES),
            parent_id=None if asked.parent_id is None else asked.parent_id.lower(),
            include_removed=asked.include_removed,
        )
        page = await self._directory.listing(call.principal, wanted)
        return Response(page.rows, headers=next_cursor(page.next_cursor))

    async def show(self, call: Call) -> Response:
        """One workspace; a removed one only for operators who ask for it."""
        asked: shapes.ShowWorkspace = call.query_params
        if call.workspace.removed and not asked.include_removed:
            raise errors.workspace_removed(call.workspace.id, removed_at(call.workspace))
        return Response(await self._directory.row(call.principal, call.workspace))

    async def change(self, call: Call) -> Response:
        """Change some of its fields, or move it in the tree."""
        needs_restart = await self._lifecycle_services.changes.apply(
            call.workspace, _given(call.body), call.principal
        )
        return Response({"status": "updated"} | ({"needs_restart": True} if needs_restart else {}))

    async def state(self, call: Call) -> Response:
        """Whether the agent should go on."""
        return Response(await self._directory.state(call.workspace))

    async def pause(self, call: Call) -> Response:
        """Pause it and all below it."""
        count = await self._lifecycle_services.lifecycle.pause(call.workspace, call.principal)
        return Response({"status": "paused", "paused_count": count})

    async def resume(self, call: Call) -> Response:
        """Undo a pause."""
        statuses = await self._lifecycle_services.lifecycle.resume(call.workspace)
        return Response({"status": statuses[0], "resumed_count": len(statuses)})

    async def restart(self, call: Call) -> Response:
        """Restart its agent, or ask an external one to."""
        body: shapes.RestartWorkspace = call.body
        asked: shapes.RestartQuery = call.query_params
        if body.template or body.apply_template or body.rebuild_config:
            raise invalid("template", "this platform has no templates yet: restart without one")
        reset = bool(body.reset or asked.reset)
        done = await self._lifecycle_services.restarts.restart(call.workspace, reset)
        if done.config_dir is None:
            return Response({"status": done.status, "signal": "restart"})
        return Response({"status": done.status, "config_dir": done.config_dir, "reset_session": reset})

    async def hibernate(self, call: Call) -> Response:
        """Stop its agent until something is wanted of it."""
        asked: shapes.HibernateQuery = call.query_params
        await self._lifecycle_services.hibernation.hibernate(call.workspace, asked.force)
        return Response({"status": "hibernated"})

    async def wake(self, call: Call) -> Response:
        """Wake its agent if it sleeps."""
        status = await self._lifecycle_services.hibernation.wake(call.workspace)
        return Response({"status": status}, 202 if status == "provisioning" else 200)

    async def delete(self, call: Call) -> Response:
        """Remove it and all below it; a parent asks for confirmation first."""
        asked: shapes.DeleteWorkspace = call.query_params
        if call.workspace.removed and not asked.purge:
            raise errors.workspace_removed(call.workspace.id, removed_at(call.workspace))
        done = await self._lifecycle_services.lifecycle.remove(
            call.workspace, asked.confirm, asked.purge, call.principal
        )
        if done.stop_failures:
            sentence = "removed, but some of their agents may still run: they are stopped again and again"
            failures: list[Any] = done.stop_failures
            raise ApiError("internal", sentence, removed_count=done.removed, stop_failures=failures)
        return Response(
            {"status": "purged" if asked.purge else "removed", "cascade_deleted": done.removed - 1}
        )


def _plan(body: shapes.CreateWorkspace) -> NewWorkspace:
    if body.template:
        raise invalid("template", "this platform has no templates yet: create the workspace without one")
    if body.initial_memories:
        raise invalid("initial_memories", "this platform keeps no memories yet: create it without them")
    position = body.canvas or shapes.Position()
    url = addresses.with_plain_scheme(body.url or "")
    return NewWorkspace(
        name=body.name,
        role=body.role or "",
        tier=2 if body.tier is None else body.tier,
        runtime="external" if body.external else (body.runtime or "").replace("_", "-"),
        model=body.model or "",
        url="" if url.startswith("remote://") else url,
        delivery_mode=body.delivery_mode,
        parent_id=_workspace_id("parent_id", body.parent_id),
        workspace_dir=body.workspace_dir,
        workspace_access=body.workspace_access or "none",
        budget_limit=body.budget_limit,
        max_concurrent_tasks=body.max_concurrent_tasks,
        hibernation_idle_minutes=body.hibernation_idle_minutes,
        visibility=body.visibility or "private",
        x=position.x,
        y=position.y,
        secrets=body.secrets or {},
        claimable=True if body.claimable is None else body.claimable,
    )


def _given(body: shapes.ChangeWorkspace) -> dict[str, Any]:
    """The fields that a request names."""
    wanted = {name: getattr(body, name) for name in body.__struct_fields__}
    wanted = {name: value for name, value in wanted.items() if value is not UNSET}
    if "parent_id" in wanted:
        wanted["parent_id"] = _workspace_id("parent_id", wanted["parent_id"])
    return wanted


def _workspace_id(field: str, given: str | None) -> str | None:
    if given is not None and not ids.is_uuid(given):
        raise ApiError("invalid-id", f"{field} is not a workspace id: it is a UUID")
    return None if given is None else given.lower()


def connection(created: CreatedWorkspace, base_url: str) -> dict[str, Any]:
    """Everything an agent's author copies to connect; shown once."""
    workspace = created.workspace
    return {
        "workspace_id": workspace.id,
        "name": workspace.name,
        "platform_url": base_url,
        "auth_token": created.auth_token,
        "registry_endpoint": f"{base_url}/registry/register",
        "heartbeat_endpoint": f"{base_url}/registry/heartbeat",
        "inbox_endpoint": f"{base_url}/workspaces/{workspace.id}/inbox",
        "curl_register_template": _curl(workspace, base_url),
        "python_snippet": JOIN_PROGRAM,
        "claude_code_channel_snippet": _channel(workspace, base_url),
    }


def _curl(workspace: Workspace, base_url: str) -> str:
    body = f'{{"id":"{workspace.id}","url":"","agent_card":{{"name":"{workspace.name}"}}}}'
    return (
        f"curl -X POST {base_url}/registry/register -H 'Authorization: Bearer <auth_token>' "
        f"-H 'Content-Type: application/json' -d '{body}'"
    )


def _channel(workspace: Workspace, base_url: str) -> str:
    return (
        f"MOLECULE_PLATFORM_URL={base_url} MOLECULE_WORKSPACE_ID={workspace.id} "
        "MOLECULE_WORKSPACE_TOKEN=<auth_token> molecule-agent connect --handler your_module:handle"
    )
