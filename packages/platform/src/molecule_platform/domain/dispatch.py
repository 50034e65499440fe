"""Whether a message can be carried to an agent now, and how many at once."""

from molecule_platform.domain import lifecycle
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace

MOST_AT_ONCE = 1000
COME_BACK_SECONDS = 30


def is_dispatchable(workspace: Workspace) -> bool:
    """Whether the workspace has a URL and its agent lives."""
    return workspace.delivery_mode == "push" and bool(workspace.url) and workspace.status in lifecycle.ALIVE


def capacity(workspace: Workspace, leased: int) -> int:
    """How many more messages the agent takes at once."""
    if (workspace.capabilities or {}).get("session") is True:
        return MOST_AT_ONCE
    return max(0, workspace.max_concurrent_tasks - max(leased, workspace.active_tasks))


def refuse_to_wait(workspace: Workspace, open_messages: int) -> None:
    """Raise for a sender who would rather be refused than wait in the mailbox."""
    if workspace.status not in lifecycle.ALIVE:
        sentence = f"{workspace.name} is {workspace.status}"
        raise Refusal("peer-unavailable", sentence, status=workspace.status, retry_after=COME_BACK_SECONDS)
    if is_dispatchable(workspace) and capacity(workspace, open_messages) == 0:
        raise Refusal("peer-busy", f"{workspace.name} is busy", busy=True, retry_after=COME_BACK_SECONDS)
