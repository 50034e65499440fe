"""Coordination of a team, at the import path of the first generation."""

from molecule_runtime.domain.team_routing import build_team_routing_payload
from molecule_runtime.kit.setup.coordinator import (
    build_children_description,
    get_children,
    get_parent_context,
    route_tool,
)
from molecule_runtime.kit.tools.platform_tools import ProcessTool

__all__ = [
    "build_children_description",
    "build_team_routing_payload",
    "get_children",
    "get_parent_context",
    "route_task_to_team",
]

route_task_to_team = ProcessTool("route_task_to_team", lambda platform: [route_tool(platform, ())])
