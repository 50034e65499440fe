"""The routes of the agent's door."""

import hashlib
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import cast
from urllib.parse import urlsplit

from molecule_agent.a2a_server import admission, runs, web
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import errors, operations
from molecule_wire.a2a.server import requests, service
from molecule_wire.a2a.server.bindings import Response
from molecule_wire.a2a.server.card import ServedCard
from molecule_wire.a2a.server.requests import RestPath

LEGACY_PATH = "/a2a/inbound"


class App:
    """Decides what a request gets; how it came over the wire is none of its business."""

    def __init__(
        self,
        *,
        admission: admission.Admission,
        running: runs.Runs,
        inbound_url: str,
        card: Callable[[], JSONObject],
    ) -> None:
        self._admission = admission
        self._runs = running
        self._card = card
        self._served_card = ServedCard()
        self._rpc_paths = {"/", "/a2a", LEGACY_PATH, plain(urlsplit(inbound_url).path)}

    def methods(self, path: str) -> tuple[str, ...]:
        """What a path can be asked; nothing for a path that is not there."""
        if path in self._rpc_paths:
            return ("POST",)
        if path in (*operations.CARD_PATHS, "/healthz"):
            return ("GET", "HEAD")
        verbs = [verb for known in requests.rest_paths(path) for verb in known.operation.verbs]
        return tuple(dict.fromkeys(verbs))

    def answer(self, request: web.Incoming) -> web.Outgoing:
        """Answer one request."""
        allowed = self.methods(request.path)
        if not allowed:
            return web.refusal(404, "not found")
        if request.method not in allowed:
            return web.answer(405, {"error": "method not allowed"}, Allow=", ".join(allowed))
        if request.path == "/healthz":
            return web.answer(200, {"status": "ok"})
        if request.path in operations.CARD_PATHS:
            tag, now = request.header("If-None-Match"), datetime.now(UTC)
            shown = self._served_card.response(self._card(), tag, now)
            return web.Outgoing(shown.status, shown.body, shown.headers)
        admitted = self._admission.admit(request)
        return admitted if isinstance(admitted, web.Outgoing) else self._give_work(admitted)

    def _give_work(self, request: web.Incoming) -> web.Outgoing:
        try:
            if request.path == LEGACY_PATH:
                return self._inbound(request)
            if request.path in self._rpc_paths:
                return self._perform(request)
            paths = requests.rest_paths(request.path)
            return self._perform(request, next(one for one in paths if request.method in one.operation.verbs))
        except runs.AgentBusy:
            return web.busy("the agent is at its capacity", "agent-busy")
        except runs.AgentStopping:
            return web.busy("the agent is being stopped", "agent-stopping")

    def _perform(self, request: web.Incoming, path: RestPath | None = None) -> web.Outgoing:
        invocation = requests.read(path, request.body, request.headers, request.query)
        if isinstance(invocation, Response):
            return web.outgoing(invocation)
        try:
            return self._runs.perform(invocation, request)
        except errors.A2AError as problem:
            return web.outgoing(invocation.binding.error(problem, invocation.request.operation))

    def _inbound(self, request: web.Incoming) -> web.Outgoing:
        try:
            body = jsontext.decode(request.body)
        except jsontext.NotJSON as problem:
            return web.refusal(400, f"bad request: {problem}")
        if not isinstance(body, dict):
            return web.refusal(400, "bad request: the body must be a JSON object")
        return self._perform(request) if "jsonrpc" in body else self._legacy(request, body)

    def _legacy(self, request: web.Incoming, body: JSONObject) -> web.Outgoing:
        result = self._runs.legacy(_legacy_key(request, body), body, request)
        if isinstance(result, runs.Failure):
            return web.refusal(500, result.sentence)
        return web.answer(200, {"status": "ok", "result": cast("JSON", result)})


def plain(path: str) -> str:
    """A path without its trailing slash."""
    return path.rstrip("/") or "/"


def _legacy_key(request: web.Incoming, body: JSONObject) -> Hashable | None:
    named = body.get("idempotency_key")
    if isinstance(named, str) and named:
        return ("legacy", named, hashlib.sha256(request.body).digest())
    return service.redelivery_key(request.principal, request.headers)
