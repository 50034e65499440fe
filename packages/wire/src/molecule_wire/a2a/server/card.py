"""The card that a server shows: 1.0 members with the 0.3 ones beside them, and nothing that it cannot do."""

import hashlib
from datetime import datetime
from email.utils import format_datetime
from typing import cast
from urllib.parse import urlsplit

from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import cards
from molecule_wire.a2a.server.bindings import Response


class ServedCard:
    """The card as bytes, with the time since when it says this."""

    def __init__(self) -> None:
        self._tag = ""
        self._since = ""

    def response(self, card: JSONObject, if_none_match: str, now: datetime) -> Response:
        """The card, or 304 for a caller whose copy is still right."""
        body = jsontext.encode(card)
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if tag != self._tag:
            self._tag, self._since = tag, format_datetime(now, usegmt=True)
        headers = (
            ("etag", tag),
            ("last-modified", self._since),
            ("cache-control", "max-age=60"),
            ("vary", "A2A-Version, Authorization"),
        )
        is_known = tag in if_none_match
        return Response(304 if is_known else 200, b"" if is_known else body, headers=headers)


def complete_card(given: JSONObject, agent_id: str, url: str) -> JSONObject:
    """The agent's own card with what the protocol needs, and how it is reached.

    JSON-RPC is where the platform delivers, HTTP+JSON below the root of the same address.
    """
    parts = urlsplit(url)
    places = (("JSONRPC", url), ("HTTP+JSON", f"{parts.scheme}://{parts.netloc}"))
    interfaces = [
        {"url": place, "protocolBinding": binding, "protocolVersion": version}
        for version in ("1.0", "0.3")
        for binding, place in places
    ]
    others = [{"url": place, "transport": binding} for binding, place in places]
    return {
        **cards.read(given, agent_id),
        "supportedInterfaces": cast("JSON", interfaces),
        "capabilities": {
            "streaming": streams(given),
            "pushNotifications": False,
            "extendedAgentCard": False,
        },
        "url": url,
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
        "additionalInterfaces": cast("JSON", others),
    }


def streams(card: JSONObject) -> bool:
    """Whether the agent streams: it does, unless its own card denies it."""
    capabilities = card.get("capabilities")
    return not isinstance(capabilities, dict) or capabilities.get("streaming") is not False
