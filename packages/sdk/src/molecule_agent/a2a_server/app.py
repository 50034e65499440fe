"""The routes of the agent's server."""

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

from molecule_agent.a2a_server import admission, http_messages, runs
from molecule_agent.errors import Fail
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import errors, operations
from molecule_wire.a2a.server import requests, service
from molecule_wire.a2a.server.bindings import AgentBusy, Response, refusal
from molecule_wire.a2a.server.card import ServedCard
from molecule_wire.a2a.server.requests import RestPath
from molecule_wire.assertions import HEADER

LEGACY_PATH = "/a2a/inbound"


@dataclass(frozen=True)
class App:
    """Decides what a request gets; how it came over the wire is none of its business."""

    admission: admission.Admission
    running: runs.Runs
    own_path: str
    card: Callable[[], JSONObject]
    served_card: ServedCard = field(default_factory=ServedCard)

    def open(self, head: http_messages.ServerRequest) -> http_messages.AcceptedRequest | Response:
        """Decide before the body is read: who calls, and what for."""
        request = head
        target = requests.route(request.method, request.path, ("/", "/a2a", LEGACY_PATH, self.own_path))
        if isinstance(target, Response):
            return target
        if target == requests.HEALTH_PATH:
            return Response(200, b'{"status":"ok"}')
        if target in operations.CARD_PATHS:
            now = datetime.now(UTC)
            return self.served_card.response(self.card(), request.header("If-None-Match"), now)
        admitted = self.admission.admit(request)
        return admitted if isinstance(admitted, Response) else http_messages.AcceptedRequest(admitted, target)

    def answer(self, opened: http_messages.AcceptedRequest, body: bytes) -> runs.Answer:
        """Answer one request whose caller may call."""
        request, target = replace(opened.request, body=body), opened.target
        try:
            if target == LEGACY_PATH:
                return self._inbound(request)
            return self._perform(request, target if isinstance(target, RestPath) else None)
        except AgentBusy as busy:
            return busy.response

    def tick(self) -> None:
        """End the turns whose time is over."""
        self.running.expire()

    def _perform(self, request: http_messages.ServerRequest, path: RestPath | None = None) -> runs.Answer:
        invocation = requests.read(path, request.body, request.headers, request.query)
        if isinstance(invocation, Response):
            return invocation
        asserted = (request.caller or {}).get("message_id")
        if asserted and invocation.request.message_id not in (None, asserted):
            sentence = f"{HEADER} is not valid: it was made for another message"
            return refusal(401, sentence, "caller-assertion-invalid")
        try:
            return self.running.perform(invocation, request)
        except errors.A2AError as problem:
            return invocation.binding.error(problem, invocation.request.operation)

    def _inbound(self, request: http_messages.ServerRequest) -> runs.Answer:
        try:
            body = jsontext.decode(request.body)
        except jsontext.NotJSON as problem:
            return refusal(400, f"bad request: {problem}")
        if not isinstance(body, dict):
            return refusal(400, "bad request: the body must be a JSON object")
        if "jsonrpc" in body:
            return self._perform(request)
        result = self.running.legacy(_legacy_key(request, body), body, request)
        if isinstance(result, Fail):
            return refusal(500, result.text)
        return Response(200, jsontext.encode({"status": "ok", "result": cast("JSON", result)}))


def _legacy_key(request: http_messages.ServerRequest, body: JSONObject) -> Hashable | None:
    named = body.get("idempotency_key")
    if isinstance(named, str) and named:
        return ("legacy", named, hashlib.sha256(request.body).digest())
    return service.redelivery_key(request.principal, request.headers)
