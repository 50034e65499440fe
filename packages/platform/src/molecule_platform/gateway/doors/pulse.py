"""The short way of a heartbeat: one that says what the last one said is answered before much else is asked.

Agents beat far more often than anything changes. What is no such repetition, or is unusual in any way, goes
the way of every request; the two never answer differently.
"""

import time
from collections.abc import Mapping

import msgspec

from molecule_platform.api import arrival, replies
from molecule_platform.api.exchange import Exchange
from molecule_platform.api.hosts import KnownHosts
from molecule_platform.api.limits import Limits
from molecule_platform.api.nouns.registry import Heartbeat
from molecule_platform.api.pipeline import Observer
from molecule_platform.domain.refusals import Refusal
from molecule_platform.services.heartbeats import Heartbeats
from molecule_platform.services.identity import Identity
from molecule_wire import times

PATH = "/registry/heartbeat"
_BODY_MOST = 4096
_ORDINARY = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    }
)
_DECODE = msgspec.json.Decoder(Heartbeat).decode


class PulseDoor:
    """Serves the repetitions of POST /registry/heartbeat."""

    def __init__(
        self,
        identity: Identity,
        heartbeats: Heartbeats,
        limits: Limits,
        observer: Observer,
        hosts: KnownHosts,
    ) -> None:
        self._identity = identity
        self._heartbeats = heartbeats
        self._limits = limits
        self._observer = observer
        self._hosts = hosts

    def answers(self, exchange: Exchange) -> bool:
        """Answer a repetition at once; whether it was one."""
        began = time.perf_counter()
        is_plain = exchange.scheme == "http" and self._hosts.knows(
            exchange.headers.get("host", ""), exchange.server
        )
        bearer = _bearer(exchange.headers) if is_plain else None
        body = None if bearer is None else exchange.whole_body(_BODY_MOST)
        reply = None if bearer is None or body is None else self._reply(bearer, body)
        if reply is None:
            return False
        content, extra = reply
        exchange.answer(200, replies.PLAIN + extra, content)
        self._observer.request("POST", PATH, 200, time.perf_counter() - began)
        return True

    def _reply(self, bearer: str, body: bytes) -> tuple[bytes, bytes] | None:
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
        extra = f"x-request-id: {arrival.new_request_id()}\r\n"
        if budget is not None:
            extra += "".join([f"{name}: {value}\r\n" for name, value in budget.headers().items()])
        beginning, at = heard
        return beginning + times.format_time(at).encode() + b'"}', extra.encode()


def _bearer(headers: Mapping[str, str]) -> str | None:
    """The token, when nothing in the request asks for more than an ordinary answer."""
    token = headers.get("authorization", "")
    return token[7:] if token.startswith("Bearer ") and headers.keys() <= _ORDINARY else None
