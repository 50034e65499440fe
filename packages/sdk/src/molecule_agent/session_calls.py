"""How calls are sent: with the workspace's credentials, and again where that is safe and may help."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar, cast
from urllib.parse import urlencode

import requests

from molecule_agent import calls, errors, responses
from molecule_agent import session as sessions
from molecule_wire import JSONObject
from molecule_wire.calls import Reply, Request, RetryPolicy, a2a, retry
from molecule_wire.calls.values import DEFAULT_TIMEOUT

GET_MAX_RETRIES = 3

T = TypeVar("T")


class SessionCalls(calls.PlatformCalls):
    """The platform's calls over a session of `requests`, or over anything that looks like one."""

    platform_url: str
    _session: responses.SessionLike
    _retry: RetryPolicy

    @abstractmethod
    def load_token(self) -> str | None:
        """The token in use."""

    @abstractmethod
    def _adopt_token_other_than(self, used: str | None) -> bool:
        """After a 401, whether there is a newer token to try."""

    @abstractmethod
    def _wait_before(self, repeat: int, refused: requests.Response | None) -> float:
        """Seconds to wait before sending again after a refusal, or after no answer at all."""

    @abstractmethod
    def _request_headers(self, **extra: str) -> dict[str, str]:
        """The headers of every call to the platform, and those of this one."""

    def _perform(self, request: Request, read: Callable[[Reply], T]) -> T:
        return responses.read(self._authenticated(lambda: self._send(request)), read)

    def _authenticated(self, send: Callable[[], requests.Response]) -> requests.Response:
        used = self.load_token()
        response = send()
        if response.status_code == 401 and self._adopt_token_other_than(used):
            responses.drop(response)
            return send()
        return response

    def _send(self, request: Request) -> requests.Response:
        headers = self._request_headers(**request.headers)
        if request.method == "GET":
            return self._get(request, headers=headers)
        if request.method == "POST":
            return self._repeat(request, lambda: self._post(request, headers=headers))
        # A session of somebody's own needs only the methods that the calls it makes have.
        name = request.method.lower()
        method: object = getattr(self._session, name, None)
        if not callable(method):
            raise errors.ConfigurationError(f"the session given to the client has no method {name}")
        url, body = self.platform_url + request.path, {} if request.json is None else {"json": request.json}

        def send() -> requests.Response:
            with errors.translated():
                return cast(requests.Response, method(url, headers=headers, timeout=request.timeout, **body))

        return self._repeat(request, send)

    def _download(self, request: Request) -> requests.Response:
        """Ask for a body that may be large: it is not read yet, and must be closed."""

        def send() -> requests.Response:
            url, params = self.platform_url + request.path, dict(request.params)
            headers = self._request_headers(**request.headers)
            with errors.translated():
                return self._session.get(
                    url, headers=headers, params=params, timeout=request.timeout, stream=True
                )

        return self._authenticated(lambda: self._repeat(request, send))

    def _post(self, request: Request, *, headers: Mapping[str, str], url: str = "") -> requests.Response:
        url = url or self.platform_url + request.path
        with errors.translated():
            return self._session.post(url, json=request.json, headers=headers, timeout=request.timeout)

    def _get(self, request: Request, *, headers: Mapping[str, str]) -> requests.Response:
        url = self.platform_url + request.path
        with errors.translated():
            if request.timeout == DEFAULT_TIMEOUT:
                return self._get_with_retry(
                    _with_query(url, request.params), headers, self._retry.max_retries
                )
            params = dict(request.params)
            response = self._session.get(url, headers=headers, params=params, timeout=request.timeout)
            if response.status_code != 429:
                return response
            params.pop("wait", None)
            return self._get_with_retry(_with_query(url, params), headers)

    def _get_with_retry(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        max_retries: int = GET_MAX_RETRIES,
    ) -> requests.Response:
        def send() -> requests.Response:
            return self._session.get(url, headers=headers or {}, timeout=10.0)

        return self._repeat(Request("GET", url), send, replace(self._retry, max_retries=max_retries))

    def _repeat(
        self, request: Request, send: Callable[[], requests.Response], policy: RetryPolicy | None = None
    ) -> requests.Response:
        policy, repeat = policy or self._retry, 1
        while True:
            response = None
            try:
                response = send()
            except (requests.ConnectionError, requests.Timeout):
                if not retry.may_repeat(policy, request, repeat, None):
                    raise
            else:
                if not retry.may_repeat(policy, request, repeat, response.status_code):
                    return response
            responses.drop(response)
            self._clock.sleep(self._wait_before(repeat, response))
            repeat += 1

    def _post_message(self, url: str, request: Request) -> JSONObject:
        if sessions.origin_of(url) != sessions.origin_of(self.platform_url):
            response = self._post(request, headers=request.headers, url=url)
            return responses.read(response, a2a.read_envelope)
        if url != self.platform_url + request.path:
            # Only on the platform path is the same message sent twice still one message.
            request = request._replace(idempotent=False)

        def send() -> requests.Response:
            return self._post(request, headers=self._request_headers(**request.headers), url=url)

        response = self._authenticated(lambda: self._repeat(request, send))
        return responses.read(response, a2a.read_envelope)


def _with_query(url: str, params: Mapping[str, str]) -> str:
    return f"{url}?{urlencode(params)}" if params else url
