"""The card the agent serves: 1.0 members with the 0.3 ones beside them, and nothing it cannot do."""

import hashlib
import json
from typing import cast

from molecule_agent.a2a_server import web
from molecule_wire import JSON, JSONObject

_TEXT: list[JSON] = ["text/plain"]


def build(given: JSONObject, agent_id: str, url: str) -> JSONObject:
    """Complete the agent's own card with what the protocol needs."""
    name = given.get("name") or agent_id
    required: JSONObject = {
        "name": name,
        "description": given.get("description") or name,
        "version": given.get("version") or "1.0.0",
        "defaultInputModes": given.get("defaultInputModes") or _TEXT,
        "defaultOutputModes": given.get("defaultOutputModes") or _TEXT,
        "skills": given.get("skills") or [_chat(name)],
    }
    return {**given, **required, **_where(url)}


def serve(card: JSONObject, request: web.Incoming) -> web.Outgoing:
    """Answer a request for the card, or say that the caller's copy is still right."""
    body = json.dumps(card, ensure_ascii=False, sort_keys=True).encode()
    headers = {
        "Content-Type": "application/json",
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        "Cache-Control": "max-age=60",
        "Vary": "A2A-Version, Authorization",
    }
    if headers["ETag"] in request.header("If-None-Match"):
        return web.Outgoing(304, b"", headers)
    return web.Outgoing(200, body, headers)


def _where(url: str) -> JSONObject:
    interfaces = [
        {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version} for version in ("1.0", "0.3")
    ]
    return {
        "supportedInterfaces": cast(JSON, interfaces),
        "capabilities": {"streaming": False, "pushNotifications": False, "extendedAgentCard": False},
        "url": url,
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
        "additionalInterfaces": [{"url": url, "transport": "JSONRPC"}],
    }


def _chat(name: JSON) -> JSONObject:
    return {"id": "chat", "name": "Chat", "description": f"Talk to {name}", "tags": ["chat"]}
