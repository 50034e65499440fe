"""A request on its way to a handler, and the reply on its way back."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.identity.authorizer import AccessDecision
from molecule_platform.web.exchange import EventStream, HttpExchange
from molecule_platform.web.pipeline.concurrency_limits import ConcurrencySlot
from molecule_platform.web.pipeline.request import Request
from molecule_platform.web.pipeline.route import Route
from molecule_wire.values import value


@dataclass(slots=True)
class Call:
    """Everything a handler may know of its request."""

    route: Route
    path: dict[str, str]
    request: Request
    exchange: HttpExchange
    raw: bytes = b""
    query_params: Any = None
    body: Any = None
    caller: Principal | None = None
    access: AccessDecision | None = None
    slot: ConcurrencySlot | None = None

    def open_stream(self, agent_id: str) -> None:
        """Count the reply among the caller's streams to an agent. Raises 429 when there are too many."""
        if self.slot is not None:
            self.slot.open_stream(self.principal.text, agent_id, self.request.max_agent_streams)

    @property
    def query(self) -> Mapping[str, list[str]]:
        """The parameters of the query as they came; those that the route declares are in `asked`."""
        return self.request.query

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by their names in small letters."""
        return self.request.headers

    @property
    def request_id(self) -> str:
        """The name of this request in replies and logs."""
        return self.request.request_id

    @property
    def base_url(self) -> str:
        """Where the caller found us."""
        return self.request.base_url

    @property
    def session_token(self) -> str | None:
        """The browser's session, if the request brings one."""
        return self.request.session

    async def disconnected(self) -> None:
        """Ends when the caller has hung up."""
        await self.exchange.disconnected()

    def watch_caller(self) -> Callable[[], bool]:
        """Watch the connection; return a function that tells whether the caller has disconnected."""
        self.exchange.watch()
        return lambda: self.exchange.is_disconnected

    @property
    def principal(self) -> Principal:
        """Who calls; only routes that need a credential may ask."""
        assert self.caller is not None
        return self.caller

    @property
    def workspace(self) -> Workspace:
        """The workspace of the path; only routes that name one may ask."""
        assert self.access is not None
        assert self.access.workspace is not None
        return self.access.workspace


@value
class Response:
    """What a handler answers."""

    body: Any = None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    stream: AsyncGenerator[bytes] | EventStream | None = None
    # How many bytes the stream has, where that is known.
    length: int | None = None

    def encoded(self) -> bytes:
        """The body as bytes."""
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else msgspec.json.encode(self.body)


Handler = Callable[[Call], Awaitable[Response]]
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(shape: type, raw: bytes) -> Any:
    """The request's body in its declared shape; refuses what is no JSON or breaks the shape."""
    decoder = _decoders.get(shape)
    if decoder is None:
        decoder = _decoders[shape] = msgspec.json.Decoder(shape)
    try:
        return decoder.decode(raw or b"{}")
    except msgspec.ValidationError as problem:
        detail = str(problem)
        raise ApiError("invalid-request", detail, field=_field_in(detail), detail=detail) from problem
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ApiError("invalid-json", f"the body is not JSON: {problem}") from problem


def _field_in(detail: str) -> str:
    """The field that a validation error names, as in "… - at `$.name`" or "… required field `name`"."""
    quoted = detail.split("`")
    if "required field" in detail or "unknown field" in detail:
        return quoted[1]
    return quoted[-2].removeprefix("$.") if " - at `" in detail else ""
