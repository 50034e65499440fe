"""HTTP server for ASGI applications: Uvicorn with deadlines, connection caps and strict framing."""

from molecule_a2a.http_server.limits import Deadlines
from molecule_a2a.http_server.server import HttpServer, PortTaken, bind, new_event_loop

__all__ = ["Deadlines", "HttpServer", "PortTaken", "bind", "new_event_loop"]
