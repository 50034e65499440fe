"""The card the agent serves: 1.0 members with the 0.3 ones beside them, and nothing it cannot do."""

import hashlib
from email.utils import formatdate
from typing import cast
from urllib.parse import urlsplit

from molecule_agent.a2a_server import web
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import cards


def build(given: JSONObject, agent_id: str, url: str) -> JSONObject:
    """Complete the agent's own card with what the protocol needs, and say how it is reached."""
    return {**cards.read(given, agent_id), **_where(url)}


class Shelf:
    """The card as bytes, with the time since when it says this."""

    def __init__(self) -> None:
        self._tag = ""
        self._since = ""

    def serve(self, card: JSONObject, request: web.Incoming) -> web.Outgoing:
        """Answer a request for the card, or say that the caller's copy is still right."""
        body = jsontext.encode(card)
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if tag != self._tag:
            self._tag, self._since = tag, formatdate(usegmt=True)
        headers = {
            "Content-Type": "application/json",
            "ETag": tag,
            "Last-Modified": self._since,
            "Cache-Control": "max-age=60",
            "Vary": "A2A-Version, Authorization",
        }
        if tag in request.header("If-None-Match"):
            return web.Outgoing(304, b"", headers)
        return web.Outgoing(200, body, headers)


def _where(url: str) -> JSONObject:
    """JSON-RPC where the platform delivers; HTTP+JSON below the root of the same address."""
    parts = urlsplit(url)
    places = (("JSONRPC", url), ("HTTP+JSON", f"{parts.scheme}://{parts.netloc}"))
    interfaces = [
        {"url": place, "protocolBinding": binding, "protocolVersion": version}
        for version in ("1.0", "0.3")
        for binding, place in places
    ]
    others = [{"url": place, "transport": binding} for binding, place in places]
    return {
        "supportedInterfaces": cast(JSON, interfaces),
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "url": url,
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
        "additionalInterfaces": cast(JSON, others),
    }
