"""The routes of the agent's door."""

import hashlib
from collections.abc import Callable, Hashable
from urllib.parse import urlsplit

from molecule_agent.a2a_server import admission, asks, framing, payloads, tasks, turns, web
from molecule_agent.a2a_server import card as cards
from molecule_wire import JSONObject, jsontext
from molecule_wire.a2a import errors, operations

LEGACY_PATH = "/a2a/inbound"


class App:
    """Decides what a request gets; how it came over the wire is none of its business."""

    def __init__(
        self,
        *,
        admission: admission.Admission,
        respond: payloads.Respond,
        running: turns.Turns,
        inbound_url: str,
        card: Callable[[], JSONObject],
    ) -> None:
        self._admission = admission
        self._respond = respond
        self._turns = running
        self._card = card
        self._shelf = cards.Shelf()
        self._tasks = tasks.Tasks(self._respond_with_parts, running)
        self._rpc_paths = {"/", "/a2a", LEGACY_PATH, plain(urlsplit(inbound_url).path)}

    def methods(self, path: str) -> tuple[str, ...]:
        """What a path can be asked; nothing for a path that is not there."""
        if path in self._rpc_paths:
            return ("POST",)
        if path in (*operations.CARD_PATHS, "/healthz"):
            return ("GET", "HEAD")
        return asks.verbs_of(path)

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
            return self._shelf.serve(self._card(), request)
        admitted = self._admission.admit(request)
        return admitted if isinstance(admitted, web.Outgoing) else self._give_work(admitted)

    def _give_work(self, request: web.Incoming) -> web.Outgoing:
        try:
            if request.path == LEGACY_PATH:
                return self._inbound(request)
            return self._rpc(request) if request.path in self._rpc_paths else self._rest(request)
        except turns.AgentBusy:
            return web.busy("the agent is at its capacity", "agent-busy")
        except turns.AgentStopping:
            return web.busy("the agent is being stopped", "agent-stopping")

    def _rpc(self, request: web.Incoming) -> web.Outgoing:
        wrapping = framing.RpcFraming()
        try:
            ask = asks.of_rpc(request)
            wrapping = framing.RpcFraming(ask.request.id, ask.request.dialect)
            return self._tasks.answer(ask)
        except errors.A2AError as problem:
            if wrapping.rpc_id is None:
                wrapping = framing.RpcFraming(problem.rpc_id, wrapping.dialect)
            return wrapping.problem(problem)

    def _rest(self, request: web.Incoming) -> web.Outgoing:
        wrapping = asks.rest_framing(request)
        try:
            return self._tasks.answer(asks.of_rest(request, wrapping))
        except errors.A2AError as problem:
            return wrapping.problem(problem)

    def _inbound(self, request: web.Incoming) -> web.Outgoing:
        try:
            body = jsontext.decode(request.body)
        except jsontext.NotJSON as problem:
            return web.refusal(400, f"bad request: {problem}")
        if not isinstance(body, dict):
            return web.refusal(400, "bad request: the body must be a JSON object")
        return self._rpc(request) if "jsonrpc" in body else self._legacy(request, body)

    def _legacy(self, request: web.Incoming, body: JSONObject) -> web.Outgoing:
        key = _legacy_key(request, body)
        turn = self._turns.start(
            "a legacy request",
            key,
            lambda: payloads.json_ready(self._respond(body, request)),
            size=len(request.body),
        )
        turn.wait()
        if not turn.failure:
            return web.answer(200, {"status": "ok", "result": turn.result})
        if not turn.timed_out:
            self._turns.forget(key)  # the platform tries again, and then the handler shall run again
        return web.refusal(500, f"internal error: {turn.failure}")

    def _respond_with_parts(self, payload: payloads.Payload, request: web.Incoming) -> object:
        return payloads.json_ready(payloads.parts_of(self._respond(payload, request)))


def plain(path: str) -> str:
    """A path without its trailing slash."""
    return path.rstrip("/") or "/"


def _legacy_key(request: web.Incoming, body: JSONObject) -> Hashable | None:
    named = body.get("idempotency_key")
    if isinstance(named, str) and named:
        return ("legacy", named, hashlib.sha256(request.body).digest())
    return tasks.redelivery_key(request)
