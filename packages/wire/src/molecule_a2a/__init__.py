"""An A2A agent on asyncio: an ASGI application around the A2A server core of `molecule_wire`.

It needs the extra `server` (Starlette and Uvicorn).
"""

from molecule_a2a.app import AgentApp, AgentRequest, Handler, Unauthenticated, local_caller
from molecule_wire.a2a.server.turns import AnswerInvalid, Turn

__version__ = "0.1.0"

__all__ = [
    "AgentApp",
    "AgentRequest",
    "AnswerInvalid",
    "Handler",
    "Turn",
    "Unauthenticated",
    "__version__",
    "local_caller",
]
