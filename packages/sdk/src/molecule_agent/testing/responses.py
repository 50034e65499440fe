"""Answers and a session that look like those of `requests`, without any socket."""

import io
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests
from requests.structures import CaseInsensitiveDict

from molecule_agent.session import origin_of
from molecule_agent.testing.faults import ConnectionDropped
from molecule_agent.testing.http_messages import PlatformRequest, PlatformResponse
from molecule_wire import JSON

Serve = Callable[[PlatformRequest], PlatformResponse]


class FakeResponse(requests.Response):
    """A response made by hand, for doubles of a session."""

    def __init__(
        self,
        status_code: int = 200,
        json_body: JSON = None,
        text: str = "",
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
    ) -> None:
        super().__init__()
        self.status_code = status_code
        self.reason = _phrase(status_code)
        self.headers.update(headers or {})
        self.encoding = "utf-8"
        self._json_body = json_body
        if not content:
            content = text.encode() if text or json_body is None else json.dumps(json_body).encode()
        self._content = content
        self._content_consumed = True
        self.raw = io.BytesIO()

    def json(self, **options: Any) -> Any:
        """The body as JSON; `None` when there is no body."""
        return super().json(**options) if self.content else self._json_body


class FakeSession:
    """Gives every request straight to a fake platform; for `RemoteAgentClient(session=…)`."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    def get(self, url: str, **request: Any) -> FakeResponse:
        """Send a GET."""
        return self.request("GET", url, **request)

    def post(self, url: str, **request: Any) -> FakeResponse:
        """Send a POST."""
        return self.request("POST", url, **request)

    def delete(self, url: str, **request: Any) -> FakeResponse:
        """Send a DELETE."""
        return self.request("DELETE", url, **request)

    def request(self, method: str, url: str, **request: Any) -> FakeResponse:
        """Send any request; a broken connection is `requests.ConnectionError`, as from a real session."""
        try:
            answered = self._serve(_asked(method, url, request))
        except ConnectionDropped:
            raise requests.ConnectionError("the fake platform dropped the connection") from None
        response = FakeResponse(answered.status, headers=answered.headers, content=answered.content)
        response.url = url
        if answered.content and not isinstance(answered.body, bytes):
            response.headers.setdefault("Content-Type", "application/json")
        return response

    def close(self) -> None:
        """Nothing to close; there is no connection."""


def _asked(method: str, url: str, request: Mapping[str, Any]) -> PlatformRequest:
    parts = urlsplit(url)
    params: dict[str, Any] = request.get("params") or {}
    query = dict(parse_qsl(parts.query))
    query |= {name: str(value) for name, value in params.items() if value is not None}
    body: Any = request.get("data") or b""
    if request.get("json") is not None:
        body = json.dumps(request["json"], allow_nan=False)
    raw = body.encode() if isinstance(body, str) else bytes(body)
    sent_headers: dict[str, str] = request.get("headers") or {}
    headers = CaseInsensitiveDict[str](sent_headers)
    return PlatformRequest(method.upper(), parts.path or "/", origin_of(url), query, headers, raw)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
