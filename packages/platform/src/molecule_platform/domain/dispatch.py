"""Whether a message can be carried to an agent now, and how many at once."""

import functools

from molecule_platform.domain import lifecycle
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import Workspace

MAX_CONCURRENT = 1000
LEGACY_PATH = "/a2a/inbound"
COME_BACK_SECONDS = 30
WAKING_SECONDS = 15


def is_dispatchable(workspace: Workspace) -> bool:
    """Whether the workspace has a URL and its agent lives."""
    return workspace.delivery_mode == "push" and bool(workspace.url) and workspace.status in lifecycle.ALIVE


def speaks_tasks(workspace: Workspace) -> bool:
    """Whether the agent can be asked now and may make a task of its own; else the platform keeps one."""
    return is_dispatchable(workspace) and not is_legacy(workspace.url)


@functools.lru_cache(maxsize=4096)
def is_legacy(url: str) -> bool:
    """Whether an address is one of the original push server, which knows no tasks."""
    return url.split("?", 1)[0].rstrip("/").endswith(LEGACY_PATH)


def owns(workspace: Workspace, capability: str) -> bool:
    """Whether the agent says that it does something itself which the platform would do otherwise."""
    return (workspace.capabilities or {}).get(capability) is True


def capacity(workspace: Workspace, leased: int) -> int:
    """How many more messages the agent takes at once."""
    if owns(workspace, "session"):
        return MAX_CONCURRENT
    return max(0, workspace.concurrent_tasks - max(leased, workspace.active_tasks))


def refuse_to_wait(workspace: Workspace, open_messages: int) -> None:
    """Raise for a sender who would rather be refused than wait in the mailbox."""
    if workspace.status == "hibernated":
        sentence = f"{workspace.name} was asleep and is being woken"
        raise ApiError("peer-waking", sentence, waking=True, retry_after=WAKING_SECONDS)
    if workspace.status not in lifecycle.ALIVE:
        sentence = f"{workspace.name} is {workspace.status}"
        more = {"restarting": True} if workspace.is_restarting else {}
        raise ApiError(
            "peer-unavailable", sentence, status=workspace.status, retry_after=COME_BACK_SECONDS, **more
        )
    if is_dispatchable(workspace) and capacity(workspace, open_messages) == 0:
        raise busy(workspace)


def busy(workspace: Workspace) -> ApiError:
    """What a sender is told who would have to wait."""
    return ApiError("peer-busy", f"{workspace.name} is busy", busy=True, retry_after=COME_BACK_SECONDS)
