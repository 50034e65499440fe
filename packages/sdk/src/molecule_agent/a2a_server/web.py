"""A request to the agent's server, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from molecule_wire import JSONObject
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
