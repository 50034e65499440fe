"""The composition root: settings → adapters → services → ASGI. The order of the house, and no logic."""

from molecule_platform.app.ground import StartProblem
from molecule_platform.app.house import Platform

__all__ = ["Platform", "StartProblem"]
