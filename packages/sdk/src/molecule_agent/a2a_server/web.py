"""A request to the agent's door and its answer, as values."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a.server.bindings import Response
from molecule_wire.calls import values


@dataclass(frozen=True)
class Incoming:
    """One request whose body was read; `headers` has lower-case names."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    peer_address: str = ""
    # Who calls, once the platform's assertion about it was verified.
    caller: JSONObject | None = None

    def header(self, name: str) -> str:
        """A header, or `""`."""
        return self.headers.get(name.lower(), "")

    @property
    def principal(self) -> str:
        """The name of the caller who was verified, or `""`."""
        return values.text_of((self.caller or {}).get("principal"))


@dataclass(frozen=True)
class Outgoing:
    """One answer; with a `stream` it is told piece by piece instead of by `body`."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    close: bool = False
    stream: Iterator[bytes] | None = None


def outgoing(response: Response) -> Outgoing:
    """The answer that the A2A core made."""
    return Outgoing(response.status, response.body, {"Content-Type": response.media})


def answer(status: int, value: JSON, **headers: str) -> Outgoing:
    """Answer with JSON; in the names of `headers` an underscore stands for a hyphen."""
    body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Outgoing(status, body, {"Content-Type": "application/json", **named})


def refusal(status: int, sentence: str, code: str = "", **extras: JSON) -> Outgoing:
    """Answer with an error in the platform's form."""
    body: JSONObject = {"error": sentence}
    if code:
        body["code"] = code
    return answer(status, {**body, **extras})


def busy(sentence: str, code: str) -> Outgoing:
    """Ask the platform to come again in a second."""
    body: JSONObject = {"error": sentence, "code": code, "retry_after": 1}
    return answer(503, body, Retry_After="1")
