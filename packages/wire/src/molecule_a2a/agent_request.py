"""A request to an agent, and who may make one."""

from starlette.requests import Request
from starlette.types import Receive, Scope

from molecule_wire.callers import is_direct

DECODED_HEADERS = "molecule.headers"
"""Where the scope has the headers, if whoever passes the request on has decoded them."""


class AgentRequest(Request):
    """A request whose headers are decoded once: Starlette's look through all of them for each name."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        fields: dict[str, str] | None = scope.get(DECODED_HEADERS)
        if fields is None:
            fields = {name.decode("latin-1"): said.decode("latin-1") for name, said in scope["headers"]}
        self.fields = fields
        """The headers by their lower-case names."""


class Unauthenticated(Exception):
    """The caller may not give this agent work; the text says why."""

    def __init__(self, sentence: str, code: str = "caller-unverified") -> None:
        self.code = code
        super().__init__(sentence)


async def local_caller(request: AgentRequest) -> str:
    """Let in requests straight from this machine, all as one caller."""
    if not is_direct(request.client.host if request.client else "", request.fields):
        raise Unauthenticated("caller not verified: only direct requests from this machine are served")
    return "local"
