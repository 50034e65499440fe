"""A request on its way to a handler, and the reply on its way back."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from molecule_platform.api.routes import Route
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.services.authority import Admission

Disconnected = Callable[[], Awaitable[None]]


@dataclass
class Call:
    """Everything a handler may know of its request."""

    route: Route
    path: dict[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    request_id: str
    base_url: str
    raw: bytes
    disconnected: Disconnected
    body: Any = None
    caller: Principal | None = None
    admission: Admission | None = None
    session_token: str | None = None

    @property
    def principal(self) -> Principal:
        """Who calls; only routes that need a credential may ask."""
        assert self.caller is not None
        return self.caller

    @property
    def workspace(self) -> Workspace:
        """The workspace of the path; only routes that name one may ask."""
        assert self.admission is not None
        assert self.admission.workspace is not None
        return self.admission.workspace

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[Callable[[], bool]]:
        """Inside, the function given tells whether the caller has hung up."""
        watch = asyncio.ensure_future(self.disconnected())
        try:
            yield watch.done
        finally:
            watch.cancel()

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A number of the query, clamped to its bounds."""
        given = self.query.get(name)
        if given is None or given == "":
            return default
        try:
            value = float(given)
        except ValueError:
            value = float("nan")
        if value != value:
            raise invalid(name, f"{name} is a number")
        return min(max(value, least), most)


@dataclass(frozen=True)
class Reply:
    """What a handler answers."""

    body: Any = None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"

    def encoded(self) -> bytes:
        """The body as bytes."""
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else msgspec.json.encode(self.body)


Handler = Callable[[Call], Awaitable[Reply]]
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(route: Route, raw: bytes) -> Any:
    """The request's body in its declared shape; refuses what is no JSON or breaks the shape."""
    if route.body is None:
        return None
    decoder = _decoders.setdefault(route.body, msgspec.json.Decoder(route.body))
    try:
        return decoder.decode(raw or b"{}")
    except msgspec.ValidationError as problem:
        detail = str(problem)
        raise Refusal("invalid-request", detail, field=_field_in(detail), detail=detail) from problem
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Refusal("invalid-json", f"the body is not JSON: {problem}") from problem


def _field_in(detail: str) -> str:
    """The field that a validation error names, as in "… - at `$.name`" or "… required field `name`"."""
    quoted = detail.split("`")
    if "required field" in detail or "unknown field" in detail:
        return quoted[1]
    return quoted[-2].removeprefix("$.") if " - at `" in detail else ""
