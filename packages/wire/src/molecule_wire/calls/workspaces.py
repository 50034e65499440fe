"""Calls about one workspace: its state, its secrets, its model, its row."""

from dataclasses import dataclass

from molecule_wire import JSONObject
from molecule_wire.calls import failures, values


@dataclass
class WorkspaceState:
    """What the operator wants of this workspace."""

    workspace_id: str
    status: str
    paused: bool
    deleted: bool

    @property
    def should_stop(self) -> bool:
        """Whether a run loop must end."""
        return self.paused or self.deleted


def state(workspace_id: str) -> values.Request:
    """Ask whether the workspace is paused or removed."""
    return values.Request("GET", f"/workspaces/{values.segment(workspace_id)}/state")


def read_state(reply: values.Reply, workspace_id: str) -> WorkspaceState:
    """Read the answer to `state`; only a 404 that says so, or a 410, means removed."""
    body = reply.object
    if reply.status == 410 or (reply.status == 404 and body.get("deleted") is True):
        return removed(workspace_id, values.text_of(body.get("status")))
    if reply.status == 404:
        raise failures.failure(reply)
    failures.check(reply)
    return WorkspaceState(
        workspace_id=values.text_of(body.get("workspace_id")) or workspace_id,
        status=values.text_of(body.get("status")) or "unknown",
        paused=body.get("paused") is True,
        deleted=body.get("deleted") is True,
    )


def removed(workspace_id: str, status: str = "") -> WorkspaceState:
    """The state of a workspace that is gone."""
    return WorkspaceState(workspace_id, status or "removed", paused=False, deleted=True)


def secrets(workspace_id: str) -> values.Request:
    """Ask for the secret values of the workspace itself."""
    return values.Request("GET", f"/workspaces/{values.segment(workspace_id)}/secrets/values")


def read_secrets(reply: values.Reply) -> dict[str, str]:
    """Read the answer to `secrets`: name to value; an empty body is no secret."""
    found = failures.check_object(reply)
    return {key: value for key, value in found.items() if isinstance(value, str)}


def show(workspace_id: str) -> values.Request:
    """Ask for the row of a workspace."""
    return values.Request("GET", f"/workspaces/{values.segment(workspace_id)}")


def change(workspace_id: str, changes: JSONObject) -> values.Request:
    """Change fields of a workspace; its own token may change `name`, `role` and `delivery_mode`."""
    return values.Request("PATCH", f"/workspaces/{values.segment(workspace_id)}", json=changes)


def choose_model(workspace_id: str, model: str) -> values.Request:
    """Choose the model of a workspace; an empty one means the default."""
    return values.Request("PUT", f"/workspaces/{values.segment(workspace_id)}/model", json={"model": model})


def shared_context(workspace_id: str) -> values.Request:
    """Ask for the files that a workspace shares with those below it."""
    return values.Request("GET", f"/workspaces/{values.segment(workspace_id)}/shared-context")


def read_shared_context(reply: values.Reply) -> list[JSONObject]:
    """Read the answer to `shared_context`: `{path, content}` each; a file without content is skipped."""
    failures.check(reply)
    files = values.objects_of(reply.body)
    return [
        file for file in files if values.text_of(file.get("path")) and values.text_of(file.get("content"))
    ]


def instructions(workspace_id: str) -> values.Request:
    """Ask for what the organisation tells this workspace to heed."""
    return values.Request("GET", f"/workspaces/{values.segment(workspace_id)}/instructions/resolve")


def read_instructions(reply: values.Reply) -> str:
    """Read the answer to `instructions`: markdown, empty when there are none."""
    failures.check(reply)
    return values.text_of(reply.object.get("instructions"))


def read_object(reply: values.Reply) -> JSONObject:
    """Read an answer that is a JSON object and nothing more particular."""
    return failures.check_object(reply)


def read_nothing(reply: values.Reply) -> None:
    """Read an answer whose body does not matter."""
    failures.check(reply)
