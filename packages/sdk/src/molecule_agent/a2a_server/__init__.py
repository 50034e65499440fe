"""The agent's own A2A server: an HTTP server to which the platform delivers messages."""

from molecule_agent.a2a_server.server import A2AServer, PayloadHandler, start_for

__all__ = ["A2AServer", "PayloadHandler", "start_for"]
