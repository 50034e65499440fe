"""The agent that answers exactly the bytes it is given."""

from packages.platform.tests.web.conftest import agent

__all__ = ["agent"]
