"""An A2A agent on asyncio: an ASGI application around the A2A server core of `molecule_wire`.

It needs the extra `server`. `HttpServer` serves it, or any other ASGI application; so does plain Uvicorn.
"""

from molecule_a2a.agent_request import AgentRequest, Unauthenticated, local_caller
from molecule_a2a.app import AgentApp
from molecule_a2a.handlers import Handler
from molecule_a2a.http_server import Deadlines, HttpServer, PortTaken, bind
from molecule_wire.a2a.server.turns import AnswerInvalid, Turn
from molecule_wire.answers import Answer
from molecule_wire.exceptions import Fail, NeedInput

__version__ = "0.1.0"

__all__ = [
    "AgentApp",
    "AgentRequest",
    "Answer",
    "AnswerInvalid",
    "Deadlines",
    "Fail",
    "Handler",
    "HttpServer",
    "NeedInput",
    "PortTaken",
    "Turn",
    "Unauthenticated",
    "__version__",
    "bind",
    "local_caller",
]
