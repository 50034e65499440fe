"""The short way of a heartbeat: one that says what the last one said is answered before much else is asked.

Agents beat far more often than anything changes. What is no such repetition, or is unusual in any way, goes
the way of every request; the two never answer differently.
"""

import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from molecule_platform.api import arrival, replies
from molecule_platform.api.arrival import Scope
from molecule_platform.api.limits import Limits
from molecule_platform.api.nouns.registry import Heartbeat
from molecule_platform.api.pipeline import Observer, Receive, Send
from molecule_platform.domain.refusals import Refusal
from molecule_platform.services.heartbeats import Heartbeats
from molecule_platform.services.identity import Identity
from molecule_wire import times

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = "/registry/heartbeat"
_BODY_MOST = 4096
_ORDINARY = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"accept-language",
        b"authorization",
        b"connection",
        b"content-length",
        b"content-type",
        b"host",
        b"user-agent",
    }
)
_DECODE = msgspec.json.Decoder(Heartbeat).decode


class PulseDoor:
    """Serves the repetitions of POST /registry/heartbeat."""

    def __init__(
        self, others: Serve, identity: Identity, heartbeats: Heartbeats, limits: Limits, observer: Observer
    ) -> None:
        self._others = others
        self._identity = identity
        self._heartbeats = heartbeats
        self._limits = limits
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a repetition; hand everything else on."""
        began = time.perf_counter()
        bearer = _bearer(scope)
        if bearer is None:
            await self._others(scope, receive, send)
            return
        event = await receive()
        body = event.get("body", b"")
        reply = None if event.get("more_body") or len(body) > _BODY_MOST else self._reply(bearer, body)
        if reply is None:
            await self._others(scope, _again(event, receive), send)
            return
        content, extra = reply
        headers = [*replies.PLAIN, *extra, (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
        self._observer.request("POST", PATH, 200, time.perf_counter() - began)

    def _reply(self, bearer: str, body: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]] | None:
        try:
            principal = self._identity.known(bearer)
            said = _DECODE(body)
        except (Refusal, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if (
            principal is None
            or principal.workspace_id != said.workspace_id
            or not principal.may("ws.runtime")
        ):
            return None
        heard = self._heartbeats.unseen_repetition(said)
        if heard is None:
            return None
        budget = self._limits.take(principal.text, known=True)
        if budget is not None and budget.retry_after is not None:
            return None
        extra = [(b"x-request-id", arrival.new_request_id().encode())]
        if budget is not None:
            extra += [(name.encode(), value.encode()) for name, value in budget.headers().items()]
        beginning, at = heard
        return beginning + times.format_time(at).encode() + b'"}', extra


def _bearer(scope: Scope) -> str | None:
    """The token, when nothing in the request asks for more than an ordinary answer."""
    token = b""
    for name, value in scope["headers"]:
        if name == b"authorization":
            token = value
        elif name not in _ORDINARY:
            return None
    plain = token.startswith(b"Bearer ") and scope.get("scheme") == "http"
    return token[7:].decode("latin-1") if plain else None


def _again(event: Mapping[str, object], receive: Receive) -> Receive:
    """Receive what was received already, and then the rest."""
    waiting = [event]

    async def replay() -> dict[str, object]:
        return dict(waiting.pop()) if waiting else await receive()

    return replay
