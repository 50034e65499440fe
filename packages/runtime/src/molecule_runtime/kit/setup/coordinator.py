"""A workspace with children: it sees its team, routes tasks to it, and reads what its parent shares."""

import logging
import os
from collections.abc import Sequence

from molecule_runtime.domain.peers import children_of, peer_of
from molecule_runtime.domain.permissions import DELEGATE
from molecule_runtime.domain.prompt_quoting import NOT_INSTRUCTIONS, fence
from molecule_runtime.domain.team_routing import CategoryRouting, best, build_team_routing_payload, rank
from molecule_runtime.kit.setup.prompt import describe_peer
from molecule_runtime.kit.tools.platform_tools import PlatformToolError, ask, delegate
from molecule_runtime.kit.tools.tool_set import ToolSpec, tool
from molecule_runtime.kit.turns import turn_context
from molecule_runtime.ports.platform import Platform
from molecule_wire import JSONObject

TEAM_HEADING = "## Your Team (sub-workspaces you coordinate)"
TEAM_RULES = """\
How you work with your team:
- delegate first: when a member's skills fit a task, give it the task
- give independent parts to several members at once, then wait for all of them
- check each result before you use it; ask again when it does not answer the task
- put the results together into one answer of your own
- answer in the language of the caller
- do the work yourself only when no member fits"""

log = logging.getLogger(__name__)


async def get_children(platform: Platform | None = None) -> list[JSONObject]:
    """The peers whose parent is this workspace; none, with a warning, when the platform does not answer."""
    platform = platform or turn_context.get_platform()
    if platform is None:
        return []
    try:
        return children_of(await ask(platform.peers()), platform.workspace_id)
    except PlatformToolError as refusal:
        log.warning("the team is not known: %s", refusal)
        return []


async def get_parent_context(platform: Platform | None = None) -> list[JSONObject]:
    """What the workspace of `PARENT_ID` shares, as `{path, content}`; none when it cannot be read."""
    platform = platform or turn_context.get_platform()
    parent_id = os.environ.get("PARENT_ID", "").strip()
    if platform is None or not parent_id:
        return []
    try:
        return await ask(platform.shared_context(parent_id))
    except PlatformToolError as refusal:
        log.warning("the context of the parent is not known: %s", refusal)
        return []


def build_children_description(children: Sequence[JSONObject]) -> str:
    """The section of the prompt for a coordinator: its team, and how to work with it."""
    if not children:
        return ""
    members = "\n".join(describe_peer(peer_of(row)) for row in children)
    return f"{TEAM_HEADING}\n{NOT_INSTRUCTIONS}\n{fence(members)}\n\n{TEAM_RULES}"


def route_tool(
    platform: Platform, children: Sequence[JSONObject], category_routing: CategoryRouting | None = None
) -> ToolSpec:
    """The tool `route_task_to_team`. It looks at the team anew, and at `children` when that fails."""

    @tool(permission=DELEGATE)
    async def route_task_to_team(task: str, preferred_member_id: str = "", auto: bool = False) -> JSONObject:
        """Find the member of your team that fits a task.

        With preferred_member_id the task is delegated to that member; with auto, to the best one when there
        is exactly one.
        """
        try:
            team = children_of(await ask(platform.peers()), platform.workspace_id)
        except PlatformToolError:
            team = list(children)
        payload = build_team_routing_payload(
            team, task, preferred_member_id, category_routing=category_routing
        )
        if payload.get("action") == "delegate_to_preferred_member":
            return payload | await delegate(platform, preferred_member_id, task)
        chosen = best(rank(map(peer_of, team), task, category_routing)) if auto else None
        if chosen is None or payload.get("action") != "choose_member":
            return payload
        started: JSONObject = {"action": "delegate_to_best_member", "member_id": chosen.peer.id, "task": task}
        return started | await delegate(platform, chosen.peer.id, task)

    return route_task_to_team
