"""`POST /invoke/{skill}`: one run of a skill, answered as JSON or as a stream of server-sent events."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from molecule_a2a import asgi
from molecule_skill.auth import bearer_token
from molecule_skill.errors import RunRefused
from molecule_skill.hosted import Invocation
from molecule_skill.hosted.interface import Gate
from molecule_skill.hosted.run_reader import RunReader
from molecule_skill.serve import shapes, streams
from molecule_skill.serve.asgi import Answer, AsgiRequest, Response, Stream, json_response, with_pings
from molecule_skill.serve.readers import ReaderCounts
from molecule_skill.store.records import RunRecord, RunState, StoredEvent
from molecule_wire import JSON, JSONObject
from molecule_wire import errors as codes

MAX_KEY_CHARACTERS = 255
MAX_SESSION_CHARACTERS = 256
MAX_DEADLINE_SECONDS = 30 * 24 * 3600
EVENTS_PAGE = 1000


@dataclass(frozen=True, slots=True)
class InvokeRequest:
    """The checked body of an invocation."""

    arguments: JSONObject
    grant: str | None
    session_id: str | None
    deadline_seconds: int | None
    cancels_on_disconnect: bool


class InvokeRoutes:
    """Starts runs and tells how they end."""

    def __init__(self, gate: Gate, readers: ReaderCounts) -> None:
        self._gate = gate
        self._readers = readers

    async def invoke(self, request: AsgiRequest, skill: str) -> Answer:
        """Run a skill. What the gate refuses is raised, also when a stream was asked for."""
        body = _read(await request.json_object())
        ctx: Any = await self._gate.open(
            Invocation(
                transport="http",
                skill=skill,
                arguments=body.arguments,
                caller_token=bearer_token(request.headers),
                headers=request.headers,
                grant_token=body.grant,
                idempotency_key=_key(request),
                session_id=body.session_id,
                deadline=None if body.deadline_seconds is None else time.time() + body.deadline_seconds,
                traceparent=request.headers.get("traceparent"),
            )
        )
        run_id, principal = str(ctx.run_id), str(ctx.caller)
        asgi.count_connection(request.scope, principal)
        if body.cancels_on_disconnect:
            self._readers.watch(run_id)
        if request.accepts_stream:
            return await self._stream(request, run_id, principal)
        if "respond-async" in request.headers.get("prefer", ""):
            return json_response({"run_id": run_id}, 202, {"location": f"{request.root}/runs/{run_id}"})
        reader = self._gate.reader(run_id, principal)
        if not body.cancels_on_disconnect:
            # Nobody looks whether the client is still there: the run goes on without it anyway.
            return await self._whole(await reader.wait(), reader)
        with self._readers.reading(run_id):
            return await self._whole(await _unless_gone(request, reader), reader)

    async def _stream(self, request: AsgiRequest, run_id: str, principal: str) -> Stream:
        seen = streams.cursor(run_id, request.headers.get("last-event-id"), None) or 0
        if seen:
            streams.check_cursor(await self._gate.run(run_id, principal), seen)
        pieces = streams.frames(self._gate.reader(run_id, principal), run_id, seen)
        return Stream(self._readers.counted(run_id, with_pings(pieces, streams.PING_SECONDS)))

    async def _whole(self, record: RunRecord, reader: RunReader) -> Response:
        while record.state is RunState.WAITING:
            waits_for = shapes.open_interaction(await reader.interactions())
            if waits_for is not None:
                waiting: JSONObject = {"run_id": record.run_id, "state": record.state.value}
                return json_response({**waiting, "interaction": waits_for}, 202)
            # It was answered since.
            record = await reader.wait()
        if record.failure is not None:
            return failed(record)
        if record.state is not RunState.SUCCEEDED:
            return json_response({"run_id": record.run_id, "state": record.state.value}, 202)
        events: list[JSON] = [shapes.event(stored) for stored in await _events(record, reader)]
        return json_response(
            {
                "run_id": record.run_id,
                "result": record.result,
                "events": events,
                "artifacts": shapes.artifacts(record.run_id, await reader.artifacts()),
                "grant_id": None,
                "changes": {"pending": []},
            }
        )


async def _unless_gone(request: AsgiRequest, reader: RunReader) -> RunRecord:
    """The run when it is final or waits for somebody, or as it is when the client leaves."""
    waiting = asyncio.ensure_future(reader.wait())
    leaving = asyncio.ensure_future(request.disconnected())
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else await reader.record()
    finally:
        waiting.cancel()
        leaving.cancel()


async def _events(record: RunRecord, reader: RunReader) -> list[StoredEvent]:
    events = await reader.events(limit=EVENTS_PAGE)
    while events and events[-1].seq < record.last_seq:
        events += await reader.events(events[-1].seq, EVENTS_PAGE)
    return events


def failed(record: RunRecord) -> Response:
    """The answer for a run that did not succeed; 499 stands in the body only, no answer has it as status."""
    failure = record.failure
    assert failure is not None
    status = codes.status_of("cancelled") if failure.status == 499 else failure.status
    body: JSONObject = {
        **failure.extras,
        "error": failure.error,
        "code": failure.code,
        "status": failure.status,
        "detail": failure.error,
        "run_id": record.run_id,
    }
    return json_response(body, status)


def _read(body: JSONObject) -> InvokeRequest:
    """The known members of a body; `llm_creds`, `cp_jwt` and `cp_url` of old clients are not kept."""
    arguments = body.get("arguments", {})
    if not isinstance(arguments, dict):
        raise RunRefused("invalid-request", "arguments must be a JSON object")
    for name, limit in (("grant", 8 * 1024), ("session_id", MAX_SESSION_CHARACTERS)):
        text = body.get(name)
        if text is not None and (not isinstance(text, str) or not 0 < len(text) <= limit):
            raise RunRefused("invalid-request", f"{name} must be a text of 1 to {limit} characters")
    seconds = body.get("deadline_seconds")
    if seconds is not None and (
        isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 < seconds <= MAX_DEADLINE_SECONDS
    ):
        sentence = f"deadline_seconds must be a whole number from 1 to {MAX_DEADLINE_SECONDS}"
        raise RunRefused("invalid-request", sentence)
    leaving = body.get("on_disconnect", "continue")
    if leaving not in ("continue", "cancel"):
        raise RunRefused("invalid-request", 'on_disconnect must be "continue" or "cancel"')
    if not isinstance(body.get("consumer_config", {}), dict):
        raise RunRefused("invalid-request", "consumer_config must be a JSON object")
    grant, session = body.get("grant"), body.get("session_id")
    return InvokeRequest(
        arguments,
        grant if isinstance(grant, str) else None,
        session if isinstance(session, str) else None,
        seconds if isinstance(seconds, int) else None,
        leaving == "cancel",
    )


def _key(request: AsgiRequest) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= MAX_KEY_CHARACTERS or not key.isprintable():
        sentence = f"Idempotency-Key must be 1 to {MAX_KEY_CHARACTERS} printable characters"
        raise RunRefused("invalid-request", sentence)
    return key
