"""The composition root: settings → adapters → services → ASGI. The order of the house, and no logic."""

from molecule_platform.app.platform import Platform
from molecule_platform.app.resources import StartProblem

__all__ = ["Platform", "StartProblem"]
