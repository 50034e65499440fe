"""From a response of `requests` (or of a test double that has hardly more than a status) to a `Reply`."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import requests

from molecule_agent import errors
from molecule_wire import JSON
from molecule_wire.calls import plugins, values

T = TypeVar("T")

_HEADERS = ("Retry-After", "X-Request-Id", "X-Next-Cursor", "Date", *plugins.HEADERS.values())


class SessionLike(Protocol):
    """What the client needs of a session: `get(url, …)` and `post(url, …)` as `requests` has them."""

    @property
    def get(self) -> Callable[..., requests.Response]:
        """Send a GET."""
        ...

    @property
    def post(self) -> Callable[..., requests.Response]:
        """Send a POST."""
        ...


def read(response: requests.Response, reader: Callable[[values.Reply], T]) -> T:
    """Read a response with a function of `molecule_wire.calls`; a refusal becomes an `ApiError`."""
    reply, refusal = _reply_of(response)
    try:
        return reader(reply)
    except values.CallFailed as failure:
        raise errors.from_failure(_explained(failure, refusal), response) from (refusal or failure)


def read_head(response: requests.Response, reader: Callable[[values.Reply], T]) -> T:
    """The same, but the body of an accepted response is left to whoever wants it."""
    reply, _ = _head_of(response)
    return reader(reply) if reply.ok else read(response, reader)


def header(response: requests.Response, name: str) -> str:
    """A header of a response, which may have none at all."""
    headers: Any = getattr(response, "headers", None)
    get = getattr(headers, "get", None)
    found: object = (get(name) or get(name.lower())) if callable(get) else None
    return str(found) if isinstance(found, str | int | float) else ""


def drop(response: requests.Response | None) -> None:
    """Give back the connection of a response whose body nobody will read."""
    if isinstance(response, requests.Response):
        response.close()


def _reply_of(response: requests.Response) -> tuple[values.Reply, requests.HTTPError | None]:
    reply, refusal = _head_of(response)
    body, readable = _json_of(response)
    return reply._replace(body=body, readable=readable), refusal


def _head_of(response: requests.Response) -> tuple[values.Reply, requests.HTTPError | None]:
    refusal: requests.HTTPError | None = None
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        refusal = error
    reply = values.Reply(
        status=_status_of(response, refusal),
        headers={name: value for name in _HEADERS if (value := header(response, name))},
        accepted=refusal is None and not _is_redirect(response),
    )
    return reply, refusal


def _status_of(response: requests.Response, refusal: requests.HTTPError | None) -> int:
    candidates = (response, getattr(refusal, "response", None))
    statuses: list[object] = [getattr(candidate, "status_code", None) for candidate in candidates]
    return next((status for status in statuses if isinstance(status, int)), 0)


def _is_redirect(response: object) -> bool:
    return isinstance(response, requests.Response) and response.is_redirect


def _json_of(response: requests.Response) -> tuple[JSON, bool]:
    """The body, and whether what there is of it is JSON; a double may have no body to look at."""
    try:
        return cast(JSON, response.json()), True
    except (ValueError, AttributeError):
        content: object = getattr(response, "content", b"")
        return None, not (isinstance(content, bytes | str) and content.strip())


def _explained(failure: values.CallFailed, refusal: requests.HTTPError | None) -> values.CallFailed:
    if not failure.message and refusal is not None:
        failure.message = str(refusal)
    return failure
