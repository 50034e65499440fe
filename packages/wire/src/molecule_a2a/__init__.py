"""An A2A agent on asyncio: an ASGI application around the A2A server core of `molecule_wire`.

It needs the extra `server`. `Listener` serves it, or any other ASGI application; so does Uvicorn.
"""

from molecule_a2a.agent_request import AgentRequest, Unauthenticated, local_caller
from molecule_a2a.app import AgentApp
from molecule_a2a.handlers import Handler
from molecule_a2a.http_connection import Timeouts
from molecule_a2a.listener import Listener, PortTaken
from molecule_wire.a2a.server.turns import AnswerInvalid, Turn
from molecule_wire.answers import Answer
from molecule_wire.exceptions import Fail, NeedInput

__version__ = "0.1.0"

__all__ = [
    "AgentApp",
    "AgentRequest",
    "Answer",
    "AnswerInvalid",
    "Fail",
    "Handler",
    "Listener",
    "NeedInput",
    "PortTaken",
    "Timeouts",
    "Turn",
    "Unauthenticated",
    "__version__",
    "local_caller",
]
