"""A request to the fake platform and its answer, as values."""

import base64
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from requests.structures import CaseInsensitiveDict

from molecule_agent.testing.records import Workspace
from molecule_wire import JSON, JSONObject, errors, ids, jsontext, times


class SeenRequest(NamedTuple):
    """One request as the fake platform got it; `path` is without the query."""

    method: str
    path: str
    headers: Mapping[str, str]
    json: JSON


@dataclass(frozen=True)
class PlatformRequest:
    """One request whose body was read; `base` is the origin it was sent to."""

    method: str
    path: str
    base: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=CaseInsensitiveDict[str])
    body: bytes = b""
    left: Callable[[], bool] = lambda: False
    """Whether whoever asked is gone, so that nothing may be handed out any more."""

    def seen(self) -> SeenRequest:
        """The request for the log; a body that is not JSON is shown as nothing."""
        try:
            body = jsontext.decode(self.body) if self.body else None
        except jsontext.NotJSON:
            body = None
        return SeenRequest(self.method, self.path, self.headers, body)

    @property
    def bearer(self) -> str:
        """The token that the request shows."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


@dataclass(frozen=True)
class RouteCall:
    """A request at its route: the workspace that calls, which is also that of the path, and the last name."""

    request: PlatformRequest
    workspace: Workspace
    name: str = ""


@dataclass(frozen=True)
class PlatformResponse:
    """One answer; `None` as a body is no body."""

    status: int
    body: JSON | bytes = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def content(self) -> bytes:
        """The body as it goes over the wire."""
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else jsontext.encode(self.body)


class RequestRejected(Exception):
    """A request that the platform declines, with a code of `molecule_wire.errors.TABLE`."""

    def __init__(self, code: str, sentence: str, **extras: JSON) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.extras = extras

    def answer(self) -> PlatformResponse:
        """The answer that says so."""
        status = errors.TABLE[self.code].status
        request_id = ids.uuid7()
        headers = {"X-Request-Id": request_id}
        if status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="molecule", error="invalid_token"'
        return PlatformResponse(
            status, errors.body(self.code, self.sentence, request_id, **self.extras), headers
        )


def invalid(name: str, sentence: str, **extras: JSON) -> RequestRejected:
    """The request is understood, and one field of it is wrong."""
    return RequestRejected("invalid-request", sentence, field=name, detail=sentence, **extras)


def workspace_not_found(workspace_id: str) -> RequestRejected:
    """There is no such workspace."""
    return RequestRejected("workspace-not-found", f"there is no workspace {workspace_id} here")


def new_secret() -> str:
    """A token as the platform makes them: 43 characters."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()


def moment(seconds: float) -> str:
    """A time on the wire."""
    return times.format_time(datetime.fromtimestamp(seconds, UTC))


def moment_or_none(seconds: float | None) -> str | None:
    """A time on the wire, if there is one."""
    return None if seconds is None else moment(seconds)


def object_in(value: JSON) -> JSONObject:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}
