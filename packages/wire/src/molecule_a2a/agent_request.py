"""A request to an agent, and who may make one."""

from urllib.parse import parse_qsl

from molecule_a2a.asgi import Receive, Scope
from molecule_wire.callers import is_direct


class AgentRequest:
    """One HTTP request over ASGI."""

    __slots__ = ("fields", "method", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self.receive = scope, receive
        self.method: str = scope["method"]
        self.fields = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        """The headers by their lower-case names."""

    @property
    def peer(self) -> str:
        """The address of the client; empty where the server does not tell."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the URL; of a repeated one the last counts."""
        text: bytes = self.scope["query_string"]
        return dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True)) if text else {}


class Unauthenticated(Exception):
    """The caller may not give this agent work; the text says why."""

    def __init__(self, sentence: str, code: str = "caller-unverified") -> None:
        self.code = code
        super().__init__(sentence)


async def local_caller(request: AgentRequest) -> str:
    """Let in requests straight from this machine, all as one caller."""
    if not is_direct(request.peer, request.fields):
        raise Unauthenticated("caller not verified: only direct requests from this machine are served")
    return "local"
