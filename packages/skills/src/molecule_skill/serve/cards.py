"""What a served agent says of itself: health, readiness, its cards and its OpenAPI document."""

from datetime import UTC, datetime
from typing import Any, cast

from molecule_skill.hosted.interface import Gate
from molecule_skill.serve.asgi import Answer, AsgiRequest, Response, json_response
from molecule_wire import JSON, JSONObject
from molecule_wire.a2a.server.card import ServedCard, complete_card

MAX_BASES = 16
"""How many addresses the A2A card is kept for; an agent is reached by one or two."""


class CardRoutes:
    """Descriptions that are made once, but for the address under which the agent is reached."""

    def __init__(self, agent: Any, gate: Gate) -> None:
        self._agent, self._gate = agent, gate
        self._native = agent.card()
        self._a2a: dict[str, tuple[JSONObject, ServedCard]] = {}

    async def health(self, request: AsgiRequest) -> Answer:
        """`GET /healthz`: the process answers."""
        return json_response(self._identity(ok=True))

    async def ready(self, request: AsgiRequest) -> Answer:
        """`GET /readyz`: runs are admitted, or why not."""
        readiness = self._gate.readiness()
        body = self._identity(ok=readiness.ok)
        if readiness.stuck:
            body["stuck"] = list[JSON](readiness.stuck)
        if not readiness.ok:
            body["reasons"] = list[JSON](readiness.reasons)
        return json_response(body, 200 if readiness.ok else 503)

    async def a2a_card(self, request: AsgiRequest) -> Answer:
        """`GET /.well-known/agent-card.json`, with the addresses that the caller used."""
        base = request.base_url
        known = self._a2a.get(base)
        if known is None:
            if len(self._a2a) >= MAX_BASES:
                self._a2a.clear()
            known = self._a2a[base] = (self._complete(base), ServedCard())
        card, served = known
        answer = served.response(card, request.headers.get("if-none-match", ""), datetime.now(UTC))
        return Response(answer.status, answer.body, answer.media, dict(answer.headers))

    async def native_card(self, request: AsgiRequest) -> Answer:
        """`GET /.well-known/agent-card`: schemas, scopes and policies."""
        return json_response(self._native.to_json())

    async def skills(self, request: AsgiRequest) -> Answer:
        """`GET /.well-known/a2a-skills.json`: the skills alone."""
        return json_response({"skills": self._native.to_json()["skills"]})

    async def openapi(self, request: AsgiRequest) -> Answer:
        """`GET /.well-known/openapi.json`."""
        return json_response(openapi(self._native.to_json(), request.base_url))

    def _identity(self, *, ok: bool) -> JSONObject:
        return {"ok": ok, "agent": self._agent.name, "version": self._agent.version}

    def _complete(self, base: str) -> JSONObject:
        own = self._native.to_a2a()
        card = complete_card(own, self._agent.name, f"{base}/")
        # The core names what it does itself; extensions are the agent's.
        capabilities = {**cast("JSONObject", own["capabilities"]), **cast("JSONObject", card["capabilities"])}
        places = cast("list[JSONObject]", card["supportedInterfaces"])
        for place in [*places, *cast("list[JSONObject]", card["additionalInterfaces"])]:
            if "HTTP+JSON" in (place.get("protocolBinding"), place.get("transport")):
                place["url"] = base
        return {**card, "capabilities": capabilities}


def openapi(card: JSONObject, base: str) -> JSONObject:
    """The OpenAPI 3.1 document of an agent: one path per skill, and the routes of runs."""
    paths: JSONObject = {}
    for skill in cast("list[JSONObject]", card["skills"]):
        paths[f"/invoke/{skill['id']}"] = {"post": _invoke(skill)}
    for path, method, summary in _RUN_ROUTES:
        entry = cast("JSONObject", paths.setdefault(path, {}))
        named = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        entry[method] = {
            "summary": summary,
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named
            ],
            "responses": {"200": {"description": "OK"}, "default": _ERROR},
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": card["name"], "description": card["description"], "version": card["version"]},
        "servers": [{"url": base}],
        "paths": paths,
    }


_ERROR: JSONObject = {
    "description": "An error",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    name: {"type": "string"} for name in ("error", "code", "request_id", "detail", "run_id")
                },
                "required": ["error", "code", "request_id"],
            }
        }
    },
}
_RUN_ROUTES = (
    ("/runs/{run_id}", "get", "A run as it is now"),
    ("/runs/{run_id}/events", "get", "The events of a run, as JSON or as a stream"),
    ("/runs/{run_id}/cancel", "post", "Cancel a run"),
    ("/runs/{run_id}/artifacts/{name}", "get", "Download an artifact"),
    ("/answers/{question_id}", "post", "Answer a question"),
    ("/input-requests/{request_id}", "post", "Fill in a form"),
)


def _invoke(skill: JSONObject) -> JSONObject:
    request: JSONObject = {
        "type": "object",
        "properties": {
            "arguments": skill["input_schema"],
            "session_id": {"type": "string"},
            "deadline_seconds": {"type": "integer", "minimum": 1},
            "on_disconnect": {"enum": ["continue", "cancel"]},
        },
    }
    reply: JSONObject = {
        "type": "object",
        "properties": {
            "run_id": {"type": "string"},
            "result": skill["output_schema"],
            "events": {"type": "array", "items": {"type": "object"}},
            "artifacts": {"type": "array", "items": {"type": "object"}},
        },
    }
    return {
        "operationId": f"invoke_{skill['id']}",
        "summary": skill["description"],
        "tags": skill["tags"],
        "requestBody": {"content": {"application/json": {"schema": request}}},
        "responses": {
            "200": {"description": "The result", "content": {"application/json": {"schema": reply}}},
            "202": {"description": "The run goes on, or waits for a person"},
            "default": _ERROR,
        },
    }
