"""The two ends of a call to the platform, as plain values: what to send and what came back."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from molecule_wire import JSON, JSONObject, times

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_NONE: Mapping[str, str] = MappingProxyType({})

_IDEMPOTENT_METHODS = frozenset({"GET", "PUT", "DELETE"})  # RFC 9110, 9.2.2

DEFAULT_TIMEOUT = 10.0
"""Seconds to wait for an answer where a call does not say otherwise."""


class Request(NamedTuple):
    """One request, complete but for the platform's address and the caller's credentials.

    `path` is percent-encoded and starts with a slash; `headers` holds only what this call adds. `idempotent`
    is set where a POST is so by construction: it only reads, or brings a key or an id by which the platform
    knows the second for the first. A heartbeat, or an answer under a lease, would bear a repeat too; but who
    sends those has a newer one to send, or a lease that says how long to go on.
    """

    method: Method
    path: str
    params: Mapping[str, str] = _NONE
    headers: Mapping[str, str] = _NONE
    json: JSONObject | None = None
    timeout: float = DEFAULT_TIMEOUT
    idempotent: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again by somebody who does not know what became of the first."""
        return self.idempotent or self.method in _IDEMPOTENT_METHODS


class Reply(NamedTuple):
    """One answer. `readable` is false when there is a body that is not JSON; `body` is then `None`.

    `accepted` carries the transport's own verdict where it has one; `None` leaves it to the status.
    """

    status: int
    headers: Mapping[str, str] = _NONE
    body: JSON = None
    readable: bool = True
    accepted: bool | None = None

    @property
    def ok(self) -> bool:
        """Whether the platform did what was asked."""
        return 200 <= self.status < 300 if self.accepted is None else self.accepted

    def header(self, name: str) -> str:
        """Look a header up whatever its case; `""` when it is absent."""
        wanted = name.lower()
        return next((value for key, value in self.headers.items() if key.lower() == wanted), "")

    @property
    def object(self) -> JSONObject:
        """The body when it is a JSON object, else an empty one."""
        return object_of(self.body)


class CallFailed(Exception):
    """The platform refused a call; `code` is a name of `molecule_wire.errors.TABLE` where it gave one."""

    def __init__(
        self,
        status: int,
        code: str = "",
        message: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        extras: JSONObject | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.retry_after = retry_after
        self.extras: JSONObject = extras or {}
        super().__init__(sentence(status, code, message, request_id))


def sentence(status: int, code: str, message: str, request_id: str) -> str:
    """Say a refusal in one line: `403 hierarchy-denied: <message> (request <id>)`."""
    head = f"{status} {code}".strip()
    tail = f" (request {request_id})" if request_id else ""
    return f"{head}: {message}{tail}" if message else f"{head}{tail}"


def segment(text: str) -> str:
    """Percent-encode one path segment; nothing is safe, so no id can leave its place."""
    return quote(text, safe="")


def object_of(value: JSON) -> JSONObject:
    """Return the value when it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: JSON) -> list[JSONObject]:
    """Return the objects of a JSON list; anything else in it, or another value, counts for nothing."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: JSON) -> str:
    """Return the value when it is text, else `""` (so that `null` never becomes the text "None")."""
    return value if isinstance(value, str) else ""


def number_of(value: JSON) -> float | None:
    """Return the value when it is a number (not a boolean), else `None`."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def moment_of(value: JSON) -> float:
    """Return an RFC 3339 time as seconds since the epoch; 0.0 for anything else."""
    try:
        return times.parse_time(text_of(value)).timestamp()
    except ValueError:
        return 0.0


def texts_of(value: JSON) -> list[str]:
    """The texts of a list; nothing for anything else."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
