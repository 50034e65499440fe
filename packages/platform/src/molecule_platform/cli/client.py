"""HTTP to the platform: one small client on the standard library. It follows no redirect and no proxy."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from molecule_platform import __version__
from molecule_platform.cli import hints, output, problems
from molecule_platform.cli.connection import Target
from molecule_wire import times

TIMEOUT_SECONDS = 10.0
MAX_ANSWER = 64 * 1024 * 1024
PIECE_MAX_BYTES = 64 * 1024
MAX_PAGES = 200
PATIENCE_SECONDS = 10


# Values by name; pairs where a name may come twice.
Query = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(frozen=True)
class ApiResponse:
    """What came back: the names of headers in small letters, the body as JSON (None if there is none)."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: object

    def object(self) -> dict[str, Any]:
        """The body, which is a JSON object."""
        if isinstance(body := self.body, dict):
            return cast(dict[str, Any], body)
        raise not_a_platform(self.url)

    def rows(self) -> list[dict[str, Any]]:
        """The body, which is a list of JSON objects."""
        if isinstance(body := self.body, list):
            return [cast(dict[str, Any], row) for row in cast(list[Any], body) if isinstance(row, dict)]
        raise not_a_platform(self.url)

    def text(self) -> str:
        """The body, which is plain text."""
        if isinstance(body := self.body, str):
            return body
        raise not_a_platform(self.url)

    @property
    def retry_after(self) -> int | None:
        """After how many seconds a request that came too soon may be repeated."""
        told = self.headers.get("retry-after", "")
        return int(told) if self.status == 429 and told.isascii() and told.isdigit() else None


@dataclass(frozen=True)
class ApiRequest:
    """One call: `path` has its segments quoted already."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float = TIMEOUT_SECONDS


class Client:
    """Calls one platform with one credential; what it has to say beside its answers are remarks."""

    def __init__(self, target: Target, remark: Callable[[str], None] = output.note) -> None:
        self.target = target
        self._remark = remark

    def get(self, path: str, query: Query | None = None, *, timeout: float = TIMEOUT_SECONDS) -> ApiResponse:
        """Read something."""
        return self.send(ApiRequest("GET", with_query(path, query), timeout=timeout))

    def post(self, path: str, body: Any = None) -> ApiResponse:
        """Make or change something."""
        return self.send(ApiRequest("POST", path, {} if body is None else body))

    def patch(self, path: str, body: Any) -> ApiResponse:
        """Change parts of something."""
        return self.send(ApiRequest("PATCH", path, body))

    def delete(self, path: str, query: Mapping[str, str] | None = None) -> ApiResponse:
        """Remove something."""
        return self.send(ApiRequest("DELETE", with_query(path, query)))

    def every_row(self, path: str, query: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """All pages of a list."""
        found: list[dict[str, Any]] = []
        wanted = dict(query or {})
        for _page in range(MAX_PAGES):
            answer = self.get(path, wanted)
            found += answer.rows()
            cursor = answer.headers.get("x-next-cursor", "")
            if not cursor:
                break
            wanted["cursor"] = cursor
        return found

    def send(self, request: ApiRequest) -> ApiResponse:
        """Send a request; whatever is not a success is raised as a `Problem`.

        Who is asked for a little patience has it, once.
        """
        answer = self.exchange(request)
        if (seconds := answer.retry_after) is not None and seconds <= PATIENCE_SECONDS:
            self._remark(f"too many requests: trying again in {seconds} s")
            time.sleep(seconds)
            answer = self.exchange(request)
        if 200 <= answer.status < 300:
            return answer
        raise self._refusal(answer)

    def exchange(self, request: ApiRequest) -> ApiResponse:
        """Send a request; an answer of any status comes back."""
        with self._asked(request) as response:
            return _answer(self.target.url, response)

    def pieces(self, request: ApiRequest) -> Iterator[bytes]:
        """Yield the bytes of a stream as they come, until it ends; `timeout` is the longest silence."""
        with self._asked(request) as response:
            if response.status != 200:
                raise self._refusal(_answer(self.target.url, response))
            while piece := response.read1(PIECE_MAX_BYTES):
                yield piece

    @contextmanager
    def _asked(self, request: ApiRequest) -> Generator[http.client.HTTPResponse]:
        url = self.target.url
        connection = self._connection(request.timeout)
        try:
            path = urlsplit(url).path + request.path
            connection.request(request.method, path, _encoded(request), self._headers(request))
            yield connection.getresponse()
        except TimeoutError as problem:
            raise problems.Unreachable(
                f"{url} did not answer within {request.timeout:g} s: look at its log, or try again",
                "platform-timeout",
            ) from problem
        except ssl.SSLError as problem:
            reason = problem.reason or "TLS failed"
            raise _unreachable(f"no safe connection to {url} ({reason}): check the URL") from problem
        except (OSError, http.client.HTTPException) as problem:
            raise _unreachable(f"no platform answers at {url}: {self._about_absence()}") from problem
        finally:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.target.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=timeout)

    def _headers(self, request: ApiRequest) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"molecule-ai-cli/{__version__}"}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if self.target.token:
            headers["Authorization"] = f"Bearer {self.target.token}"
        if self.target.org:
            headers["X-Molecule-Org-Id"] = self.target.org
        return headers | dict(request.headers)

    def _refusal(self, answer: ApiResponse) -> problems.Problem:
        body = answer.object()
        sentence, code = _told(body)
        if answer.status == 401:
            sentence = f"{sentence}. {self._about_token()}"
        elif answer.retry_after is not None:
            sentence = f"{sentence}. {_about_patience(answer.retry_after)}"
        elif code == "hierarchy-denied":
            sentence = f"{sentence}. {self._about_tree(str(body.get('explain_url')))}"
        extras = {name: value for name, value in body.items() if name not in ("error", "jsonrpc", "id")}
        return problems.Refused(sentence, code, answer.status, extras | {"status": answer.status})

    def _about_token(self) -> str:
        remedy = (
            "give one with --token or MOLECULE_ADMIN_TOKEN, or name the platform's folder with --data-dir"
        )
        if not self.target.token:
            return f"No token was found in {self.target.token_from}: {remedy}"
        return f"The token came from {self.target.token_from}: {remedy}"

    def _about_absence(self) -> str:
        if self.target.is_local:
            return f"start one with `{self.target.start()}`, or name another with --url"
        return "look whether it runs there, or name another with --url"

    def _about_tree(self, explain_url: str) -> str:
        asked = parse_qs(urlsplit(explain_url).query)
        pair = [hints.word(asked.get(side, [side.upper()])[0]) for side in ("caller", "target")]
        return f"`{self.target.command(' '.join(['access explain', *pair]))}` tells rule by rule"


def segment(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")


def with_query(path: str, query: Query | None) -> str:
    """A path with its parameters."""
    return f"{path}?{urlencode(query)}" if query else path


def _encoded(request: ApiRequest) -> bytes | None:
    return None if request.body is None else json.dumps(request.body).encode()


def _answer(url: str, response: http.client.HTTPResponse) -> ApiResponse:
    raw = response.read(MAX_ANSWER + 1)
    if len(raw) > MAX_ANSWER:
        raise problems.Problem(f"{url} sent more than {MAX_ANSWER} bytes", "answer-too-large")
    headers = {name.lower(): value for name, value in response.getheaders()}
    try:
        return ApiResponse(url, response.status, headers, _decoded(raw, headers.get("content-type", "")))
    except ValueError:
        raise not_a_platform(url) from None


def _decoded(raw: bytes, content_type: str) -> object:
    if content_type.startswith("text/plain"):
        return raw.decode()
    return json.loads(raw) if raw else None


def _about_patience(seconds: int) -> str:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return f"It can be repeated at {output.moment(times.format_time(at))}"


def _told(body: Mapping[str, Any]) -> tuple[str, str]:
    """The sentence and the code of an error: the plain form, or that of JSON-RPC."""
    error = body.get("error")
    if isinstance(error, dict):
        error = cast(dict[str, Any], error).get("message")
    request_id = body.get("request_id")
    sentence = str(error or "the platform gave no reason")
    if body.get("code") == "internal" and request_id:
        sentence = f"{sentence} (its log has more: request {request_id})"
    return sentence, str(body.get("code") or "failed")


def _unreachable(sentence: str) -> problems.Unreachable:
    return problems.Unreachable(sentence, "platform-unreachable")


def not_a_platform(url: str) -> problems.Unreachable:
    """Something answers, but it does not speak our language."""
    return _unreachable(f"what answers at {url} is not a Molecule platform: name the right one with --url")
