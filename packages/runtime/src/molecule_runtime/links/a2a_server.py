"""The agent's A2A server: `molecule_a2a.AgentApp` with the workspace's callers, tasks and further routes."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from molecule_a2a import AgentApp, AgentRequest, Unauthenticated
from molecule_runtime.kit.state import engine_health
from molecule_runtime.kit.state.metrics import Metrics
from molecule_runtime.kit.state.status import Status
from molecule_runtime.kit.turns.runner import TurnRunner
from molecule_runtime.links import legacy_inbound, tokens
from molecule_runtime.links.callers import CallerAccepted, CallerRefused, CallerVerifier
from molecule_runtime.links.task_output import TaskOutput, turn_request
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a.server import requests
from molecule_wire.a2a.server.bindings import AgentBusy, Response, refusal
from molecule_wire.a2a.server.records import TurnStore
from molecule_wire.a2a.server.service import Retention
from molecule_wire.a2a.server.turns import Turn
from molecule_wire.callers import is_direct

RETRY_SECONDS = 5
TASK_RETENTION = Retention(seconds=24 * 3600, count=1000)
LIFECYCLE = "system:lifecycle"

_accepted: ContextVar[CallerAccepted] = ContextVar("molecule_caller")


class AgentServer:
    """Serves one runner. `transcript` and `capabilities` come from the adapter, `stop` ends the process.

    `reload` reads the configuration again.
    """

    def __init__(
        self,
        runner: TurnRunner,
        verifier: CallerVerifier,
        status: Status,
        metrics: Metrics,
        *,
        card: JSONObject,
        url: str,
        workspace_id: str,
        store: TurnStore | None = None,
        transcript: Callable[[int, int], Awaitable[JSONObject]],
        capabilities: Callable[[], JSONObject],
        stop: Callable[[], None],
        reload: Callable[[], None],
    ) -> None:
        self._runner = runner
        self._verifier = verifier
        self._status = status
        self._metrics = metrics
        self._transcript = transcript
        self._capabilities = capabilities
        self._stop = stop
        self._reload = reload
        self.app = AgentApp(
            self._handle,
            card,
            url=url,
            agent_id=workspace_id,
            authenticate=self._authenticate,
            check_message=self._check_message,
            admit=self._admit,
            interrupt=lambda turn: runner.cancel(turn.log.id),
            store=store,
            endpoints={
                ("POST", "/a2a/inbound"): self._inbound,
                ("GET", "/readyz"): self._readyz,
                ("GET", "/metrics"): self._metrics_page,
                ("GET", "/transcript"): self._transcript_page,
                ("GET", "/capabilities"): self._capabilities_page,
                ("POST", "/control/stop"): self._control_stop,
                ("POST", "/control/reload"): self._control_reload,
                ("POST", "/control/unwedge"): self._control_unwedge,
            },
            rpc_paths=("/", "/a2a"),
            max_body_seconds=None,  # the listener sees to it
            turn_seconds=None,
            retention=TASK_RETENTION,
        )

    async def _handle(self, turn: Turn) -> None:
        accepted = _accepted.get()
        request = turn_request(turn, accepted.caller, accepted.delegation)
        await self._runner.run(request, TaskOutput(turn, request))

    def _admit(self) -> None:
        if self._status.state not in ("ready", "wedged"):
            code = "agent-stopping" if self._status.phase == "stopping" else "agent-busy"
            raise AgentBusy(f"the agent takes no turns: {self._status.state}", code, RETRY_SECONDS)
        if self._status.paused:
            raise AgentBusy("the workspace is paused", "agent-busy", RETRY_SECONDS)
        self._runner.admit()

    # Callers

    async def _authenticate(self, request: AgentRequest) -> str:
        verified = await self._verifier.verify_head(request.peer, request.fields)
        accepted = _or_raise(verified)
        _accepted.set(accepted)
        # Signatures of requests that came together are checked one after the other: a check that finds its
        # tables in the processor's cache, and leaves them there, saves 14 us of a turn's 240.
        await asyncio.sleep(0)
        return accepted.caller.principal if accepted.caller else ""

    def _check_message(self, message_id: str) -> None:
        _or_raise(self._verifier.check_message_id(_accepted.get(), message_id))

    # Further routes

    async def _inbound(self, request: AgentRequest) -> Response:
        """The body of the original push server, answered as a `SendMessage`."""
        accepted = await self.app.accept(request)
        if isinstance(accepted, Response):
            return accepted
        body = legacy_inbound.as_rpc(accepted.body)
        if isinstance(body, Response):
            return body
        headers = {**request.fields, "a2a-version": "1.0"}
        if body.key:
            headers["x-molecule-message-id"] = body.key
        invocation = requests.json_rpc(body.rpc, headers)
        answer = await self.app.perform(invocation, accepted.principal, headers)
        assert isinstance(answer, Response), "SendMessage is not answered with a stream"
        return legacy_inbound.answered(answer)

    async def _readyz(self, request: AgentRequest) -> Response:
        if self._status.state == "ready":
            return _json(200, {"status": "ready"})
        return _json(503, {"status": self._status.state, "reason": self._status.why})

    async def _metrics_page(self, request: AgentRequest) -> Response:
        if not is_direct(request.peer, request.fields) and not self._has_token(request):
            return _unauthenticated()
        text = self._metrics.text(self._runner.queue.waiting, engine_health.is_wedged())
        return Response(200, text.encode(), "text/plain; version=0.0.4")

    async def _transcript_page(self, request: AgentRequest) -> Response:
        if not self._has_token(request):
            verified = await self._verifier.verify_head(request.peer, request.fields)
            if isinstance(verified, CallerRefused) or verified.caller is None:
                return _unauthenticated()
        since, limit = request.query.get("since", "0"), request.query.get("limit", "100")
        if not _is_number(since) or not _is_number(limit):
            return refusal(400, "since and limit are whole numbers from 0", "invalid-request")
        return _json(200, await self._transcript(int(since), min(int(limit), 1000)))

    async def _capabilities_page(self, request: AgentRequest) -> Response:
        return _json(200, self._capabilities())

    async def _control_stop(self, request: AgentRequest) -> Response:
        return await self._controlled(request, self._stop)

    async def _control_reload(self, request: AgentRequest) -> Response:
        return await self._controlled(request, self._reload)

    async def _control_unwedge(self, request: AgentRequest) -> Response:
        return await self._controlled(request, engine_health.clear_wedge)

    async def _controlled(self, request: AgentRequest, act: Callable[[], Any]) -> Response:
        is_own = self._has_token(request) and is_direct(request.peer, request.fields)
        if not is_own:
            verified = await self._verifier.verify_head(request.peer, request.fields)
            if isinstance(verified, CallerRefused) or not verified.has_dispatch_secret:
                return _unauthenticated()
            if verified.caller is None or verified.caller.principal != LIFECYCLE:
                return _unauthenticated()
        act()
        return _json(202, {"status": "accepted"})

    def _has_token(self, request: AgentRequest) -> bool:
        token = tokens.get_token() or ""
        bearer = request.fields.get("authorization", "").removeprefix("Bearer ")
        return bool(token) and hmac.compare_digest(bearer.encode(), token.encode())


def _or_raise(verified: CallerAccepted | CallerRefused) -> CallerAccepted:
    if isinstance(verified, CallerAccepted):
        return verified
    if verified.status == 503:
        raise AgentBusy(verified.sentence, verified.code, verified.retry_after or RETRY_SECONDS)
    raise Unauthenticated(verified.sentence, verified.code)


def _json(status: int, value: JSON) -> Response:
    return Response(status, jsontext.encode(value))


def _unauthenticated() -> Response:
    return refusal(401, "unauthorized", "unauthenticated")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
