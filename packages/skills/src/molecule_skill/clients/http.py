"""Calls to skills over HTTP: `POST {base}/invoke/{skill}` with a stream that is taken up again when cut."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any, cast
from urllib.parse import quote

from molecule_skill.a2a_client import A2AClient, CallResult
from molecule_skill.clients.remote_errors import remote_error, unreachable
from molecule_skill.discovery import DiscoveryClient
from molecule_skill.errors import A2AError, CallTimeout, GrantDelegationDenied
from molecule_skill.events import AgentEvent, ArtifactRef
from molecule_skill.http_client import MAX_BODY_BYTES, AddressRefused, HttpClient, StreamingResponse, origin
from molecule_wire import JSONObject, ids, jsontext
from molecule_wire.sse_decoder import EventTooLarge, SSEDecoder

RESOLVED_SECONDS = 60.0
CANCEL_SECONDS = 5.0
RECONNECTS = 5
_STREAM = "text/event-stream"


class HttpA2AClient(A2AClient):
    """Runs skills of agents that are served over HTTP. The target is a URL, or a name that `discovery` knows.

    `credentials` maps an origin to the token for it; a token goes to its own origin only. Private, link-local
    and metadata addresses are refused unless `allow_private` is set.
    """

    def __init__(
        self,
        *,
        default_timeout: float = 60.0,
        discovery: DiscoveryClient | None = None,
        credentials: Mapping[str, str] | None = None,
        allow_private: bool = False,
    ) -> None:
        self._default_timeout = default_timeout
        self._discovery = discovery
        self._tokens = {origin(url): token for url, token in (credentials or {}).items()}
        self._http = HttpClient(allow_private=allow_private)
        self._resolved: dict[str, tuple[str, float]] = {}

    async def call(
        self,
        target: str,
        skill: str,
        *,
        args: dict[str, Any] | None = None,
        grant: str | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """See `A2AClient`. Raises A2AError, also as the class that the callee's code names."""
        events = list[AgentEvent]()
        async for item in self.stream(target, skill, args=args, grant=grant, timeout=timeout):
            if isinstance(item, CallResult):
                return CallResult(item.result, tuple(events), item.artifacts, item.grant_id, item.run_id)
            events.append(item)
        raise A2AError("the stream ended without a result", url=target)

    async def stream(
        self,
        target: str,
        skill: str,
        *,
        args: dict[str, Any] | None = None,
        grant: str | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[AgentEvent | CallResult]:
        """The events of a call as they come, then its result. Ending it early cancels the remote run."""
        if grant is not None:
            raise GrantDelegationDenied("file grants cannot be passed on over HTTP yet: call without grant=")
        base = await self._base(target)
        call = _Call(self._http, base, skill, args or {}, self._headers(base))
        seconds = self._default_timeout if timeout is None else timeout
        ended, limit = False, asyncio.timeout(seconds)
        try:
            async with limit:
                async for item in call.events():
                    ended = ended or isinstance(item, CallResult)
                    yield item
        except TimeoutError as problem:
            self._resolved.pop(target, None)
            if not limit.expired():
                raise unreachable(base, problem) from problem
            raise CallTimeout(f"{skill} at {base} took longer than {seconds:g} s") from problem
        except A2AError:
            ended = True
            self._resolved.pop(target, None)
            raise
        finally:
            if not ended:
                await call.cancel()

    async def close(self) -> None:
        """Give the connections up."""
        await self._http.close()

    def _headers(self, base: str) -> dict[str, str]:
        token = self._tokens.get(origin(base))
        return {"authorization": f"Bearer {token}"} if token else {}

    async def _base(self, target: str) -> str:
        if target.startswith(("http://", "https://")):
            return target.rstrip("/")
        known = self._resolved.get(target)
        if known is not None and time.monotonic() < known[1]:
            return known[0]
        if self._discovery is None:
            raise ValueError(f"{target!r} is no URL, and this client has no discovery: give it one, or a URL")
        base = (await self._discovery.get_agent(target)).url.rstrip("/")
        self._resolved[target] = (base, time.monotonic() + RESOLVED_SECONDS)
        return base


class _Call:
    """One run of a skill at a server."""

    def __init__(
        self, http: HttpClient, base: str, skill: str, args: dict[str, Any], headers: dict[str, str]
    ) -> None:
        self._http, self._base = http, base
        self._path = f"/invoke/{quote(skill, safe='')}"
        self._body = jsontext.encode({"arguments": args})
        # A repeated post finds the run of the first: a cut before the first event starts nothing twice.
        self._headers = {"accept": _STREAM, **headers}
        self._post_headers = {
            **self._headers,
            "content-type": "application/json",
            "idempotency-key": ids.uuid7(),
        }
        self._run_id: str | None = None
        self._seen = 0

    async def events(self) -> AsyncGenerator[AgentEvent | CallResult]:
        """Events and the result, over as many connections as it takes."""
        failures = 0
        while True:
            seen = self._seen
            try:
                async for item in self._connected():
                    yield item
                    if isinstance(item, CallResult):
                        return
            except AddressRefused as problem:
                raise A2AError(str(problem), url=self._base, code="unsafe-url") from problem
            except (ConnectionError, EventTooLarge, jsontext.NotJSON) as problem:
                failures = failures + 1 if seen == self._seen else 1
                if failures > RECONNECTS or isinstance(problem, EventTooLarge):
                    raise unreachable(self._base, problem) from problem
                await asyncio.sleep(min(2.0, 0.05 * 2**failures))

    async def cancel(self) -> None:
        """Tell the server that nobody waits for the run any more."""
        if self._run_id is None:
            return
        url = f"{self._base}/runs/{quote(self._run_id, safe='')}/cancel"
        with suppress(OSError, ValueError):
            # Shielded: whoever is being cancelled must still be able to say so.
            await asyncio.shield(
                self._http.send("POST", url, headers=self._headers, timeout=CANCEL_SECONDS, content=b"")
            )

    async def _connected(self) -> AsyncGenerator[AgentEvent | CallResult]:
        async with self._request() as answer:
            if answer.status == 202 or not answer.headers.get("content-type", "").startswith(_STREAM):
                for item in self._whole(answer.status, await _body(answer)):
                    yield item
                return
            decoder = SSEDecoder()
            async for piece in answer.pieces():
                for event in decoder.feed(piece):
                    if event.data == b"[DONE]":
                        return
                    yield self._event(jsontext.decode(event.data))
        raise ConnectionError("the stream was cut")

    def _request(self) -> Any:
        if self._run_id is None:
            url = self._base + self._path
            return self._http.stream(
                "POST", url, headers=self._post_headers, content=self._body, timeout=None
            )
        url = f"{self._base}/runs/{quote(self._run_id, safe='')}/events"
        headers = {**self._headers, "last-event-id": f"{self._run_id}:{self._seen}"}
        return self._http.stream("GET", url, headers=headers, timeout=None)

    def _whole(self, status: int, body: JSONObject) -> list[AgentEvent | CallResult]:
        """A JSON answer: the result, or a run that goes on and is followed from here."""
        if status >= 300:
            raise remote_error(self._base, status, body)
        run_id = body.get("run_id")
        if status == 202 and isinstance(run_id, str):
            self._run_id = run_id
            return []
        listed = body.get("events")
        events = [_agent_event(event) for event in listed] if isinstance(listed, list) else []
        return [*events, _result(body)]

    def _event(self, frame: Any) -> AgentEvent | CallResult:
        if not isinstance(frame, dict):
            raise ConnectionError("the stream holds what is no event")
        fields = cast("JSONObject", frame)
        if fields.get("type") == "error":
            status = fields.get("status")
            raise remote_error(self._base, status if isinstance(status, int) else None, fields)
        run_id, seq = fields.get("run_id"), fields.get("seq")
        if isinstance(run_id, str):
            self._run_id = run_id
        if fields.get("type") == "result":
            return _result(fields)
        if isinstance(seq, int):
            self._seen = seq
        return _agent_event(fields)


async def _body(answer: StreamingResponse) -> JSONObject:
    held, size = list[bytes](), 0
    async for piece in answer.pieces():
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise EventTooLarge(f"the answer is larger than {MAX_BODY_BYTES} bytes")
        held.append(piece)
    try:
        body = jsontext.decode(b"".join(held))
    except jsontext.NotJSON:
        body = None
    return body if isinstance(body, dict) else {}


def _agent_event(fields: Any) -> AgentEvent:
    payload: Any = fields.get("payload")
    return AgentEvent(
        str(fields.get("kind")), cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    )


def _result(fields: JSONObject) -> CallResult:
    grant, run_id = fields.get("grant_id"), fields.get("run_id")
    listed = cast("list[Any]", fields.get("artifacts") or [])
    return CallResult(
        result=fields.get("result"),
        artifacts=tuple(_reference(cast("dict[str, Any]", one)) for one in listed if isinstance(one, dict)),
        grant_id=grant if isinstance(grant, str) else None,
        run_id=run_id if isinstance(run_id, str) else None,
    )


def _reference(fields: dict[str, Any]) -> ArtifactRef:
    size = fields.get("size_bytes")
    return ArtifactRef(
        str(fields.get("name")),
        str(fields.get("uri")),
        str(fields.get("mime_type")),
        size if isinstance(size, int) else 0,
    )
