"""A request to the agent's server, as a value."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import NamedTuple

from molecule_wire import JSONObject
from molecule_wire.a2a.server.bindings import Response
from molecule_wire.a2a.server.requests import RestPath
from molecule_wire.calls import values
from molecule_wire.values import value


def _cannot_answer_early(response: Response) -> None:
    """The answer to a request that no connection brought."""


@value
class ServerRequest:
    """One request; `headers` has lower-case names. `body` is empty until it was read.

    `answer_early` answers it while a handler is still at work on it.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    peer_address: str = ""
    # Who calls, once the platform's assertion about it was verified.
    caller: JSONObject | None = None
    answer_early: Callable[[Response], None] = _cannot_answer_early

    def header(self, name: str) -> str:
        """A header, or `""`."""
        return self.headers.get(name.lower(), "")

    @property
    def principal(self) -> str:
        """The name of the caller who was verified, or `""`."""
        return values.text_of((self.caller or {}).get("principal"))


class AcceptedRequest(NamedTuple):
    """A request whose head was taken: its body may be read."""

    request: ServerRequest
    target: RestPath | str


def plain(path: str) -> str:
    """A path without its trailing slash."""
    return path.rstrip("/") or "/"
