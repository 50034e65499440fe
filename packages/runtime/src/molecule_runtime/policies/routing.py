"""Routing of tasks in a team, at the import path of the first generation."""

from molecule_runtime.domain.team_routing import build_team_routing_payload

__all__ = ["build_team_routing_payload"]
