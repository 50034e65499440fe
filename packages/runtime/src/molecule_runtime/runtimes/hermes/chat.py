"""The chat transport: one turn is one request to `/v1/chat/completions`, whole or streamed."""

import asyncio
import email.utils
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from molecule_runtime.kit.turns.sink import Sink
from molecule_runtime.runtimes.hermes import client, failures
from molecule_runtime.runtimes.hermes.client import HermesUnreachable, OpenReply, as_object
from molecule_runtime.runtimes.hermes.sessions import SESSION_HEADER, is_session_id
from molecule_wire.sse_decoder import EventTooLarge, SSEDecoder, SSEEvent

RETRY_SECONDS = (0.2, 0.8)
"""Waits before a request is sent again that nobody took."""
PROBE_SECONDS = 5.0
MAX_ERROR_BYTES = 64 * 1024
BUSY = (429, 503)
DONE = b"[DONE]"

log = logging.getLogger(__name__)


class SessionRefused(Exception):
    """The gateway takes no session header: it has no key itself."""


@dataclass(frozen=True)
class ChatRequest:
    """One request. `timeout` is for all attempts together; `last_start` is when none may begin any more."""

    base: str
    headers: Mapping[str, str]
    payload: dict[str, Any]
    timeout: float
    last_start: float


class ChatAnswer(NamedTuple):
    """The text of an answer, and the session that the gateway says it belongs to."""

    text: str
    session_id: str


async def probe_features(base: str, headers: Mapping[str, str], timeout: float) -> dict[str, Any] | None:
    """What a gateway can do, by name; None when it does not say: an old one, or none that can be reached."""
    url = f"{base.removesuffix('/v1')}/v1/capabilities"
    try:
        reply = await client.send("GET", url, headers, min(PROBE_SECONDS, timeout))
    except HermesUnreachable as problem:
        log.info("the gateway does not say what it can do: %s", problem)
        return None
    features = as_object(reply.json()).get("features") if reply.status == 200 else None
    return as_object(features) if isinstance(features, dict) else None


async def knows_session(
    base: str, headers: Mapping[str, str], session_id: str, timeout: float
) -> bool | None:
    """Whether the gateway has messages of a session; None when it does not say."""
    found = await session_messages(base, headers, session_id, timeout)
    return None if found is None else bool(found)


async def session_messages(
    base: str, headers: Mapping[str, str], session_id: str, timeout: float
) -> list[Any] | None:
    """The messages of a session, none for one that the gateway does not know; None when it does not say."""
    url = f"{base.removesuffix('/v1')}/api/sessions/{session_id}/messages"
    try:
        reply = await client.send("GET", url, headers, min(PROBE_SECONDS, timeout))
    except HermesUnreachable:
        return None
    if reply.status == 404:
        return []
    body: Any = reply.json() if reply.status == 200 else None
    if isinstance(body, dict):
        body = as_object(body).get("data", as_object(body).get("messages"))
    return cast("list[Any]", body) if isinstance(body, list) else None


async def ask(request: ChatRequest, sink: Sink) -> ChatAnswer:
    """Send a request and read its answer; deltas and tool calls of a stream go to the sink.

    Raises TurnError with the sentence for the caller, SessionRefused, or HermesUnreachable.
    """
    # With images it has megabytes.
    content = await asyncio.to_thread(json.dumps, request.payload)
    until, was_lost = time.monotonic() + request.timeout, False
    for pause in (*RETRY_SECONDS, None):
        last_start = min(until, request.last_start) - time.monotonic()
        try:
            async with client.open_request(
                "POST",
                f"{request.base}/chat/completions",
                request.headers,
                until - time.monotonic(),
                content.encode(),
            ) as reply:
                wait = _retry_after(reply)
                if wait is None or pause is None or wait >= last_start:
                    return await _read(reply, request, sink)
        except HermesUnreachable as problem:
            # A gateway that ends under a request refuses the next attempt: it is lost all the same.
            was_lost = problem.is_lost = problem.is_lost or was_lost
            # Nothing is sent twice that may have been worked on.
            if pause is None or not problem.is_early or pause >= last_start:
                raise
            wait = pause
            log.info("the gateway did not take the request, again in %.1f s: %s", wait, problem)
        await asyncio.sleep(wait)
    raise AssertionError("the last attempt has no pause after it")


async def _read(reply: OpenReply, request: ChatRequest, sink: Sink) -> ChatAnswer:
    if reply.status == 403 and SESSION_HEADER in request.headers:
        raise SessionRefused
    if not 200 <= reply.status < 300:
        error_text = failures.scrubbed_body((await reply.read(MAX_ERROR_BYTES, cut=True)).body)
        log.error("hermes-agent %d: %s", reply.status, error_text)
        raise failures.failure("hermes-error", f"[hermes-agent error {reply.status}] {error_text}")
    session_id = reply.headers.get(SESSION_HEADER.lower(), "")
    session_id = session_id if is_session_id(session_id) else ""
    is_stream = reply.headers.get("content-type", "").startswith("text/event-stream")
    model = str(request.payload.get("model", ""))
    if is_stream:
        return ChatAnswer(await _read_stream(reply, sink, model), session_id)
    data = (await reply.read()).json()
    text = extract_assistant_text(data)
    if text is None:
        raise failures.no_content()
    _check_chunk(as_object(data))
    _report_usage(sink, data, model)
    return ChatAnswer(text, session_id)


def extract_assistant_text(data: Any) -> str | None:
    """The text of an answer, empty for content that is null; None, with a warning, when it is no answer."""
    with suppress(KeyError, IndexError, TypeError):
        content = data["choices"][0]["message"]["content"]
        if content is None or isinstance(content, str):
            return content or ""
    shape = " ".join([type(cast("object", data)).__name__, *sorted(as_object(data))])
    shape = failures.scrubbed(shape)[: failures.MAX_REASON_CHARACTERS]
    log.warning("Unexpected hermes-agent response shape: %s", shape)
    return None


async def _read_stream(reply: OpenReply, sink: Sink, model: str) -> str:
    pieces = list[str]()
    tools = dict[str, str]()
    is_done = is_lost = False
    try:
        async for event in _events(reply):
            if event.data == DONE:
                is_done = True
                break
            chunk = _object_in(event)
            if event.type == "hermes.tool.progress":
                _report_tool(sink, chunk, tools)
            elif delta := _delta(chunk):
                pieces.append(delta)
                await sink.text(delta)
            _report_usage(sink, chunk, model)
            _check_chunk(chunk)
    except EventTooLarge as problem:
        log.warning("stopped reading the gateway's stream: %s", problem)
    except HermesUnreachable as problem:
        if problem.is_timeout:
            raise
        is_lost = problem.is_lost
        log.warning("the gateway's stream broke: %s", problem)
    if not is_done:
        sentence = "[hermes-agent unreachable] stream ended early"
        raise failures.failure("hermes-unreachable", sentence, retryable=is_lost)
    return "".join(pieces)


async def _events(reply: OpenReply) -> AsyncIterator[SSEEvent]:
    decoder = SSEDecoder()
    async for piece in reply.pieces():
        for event in decoder.feed(piece):
            yield event


def _object_in(event: SSEEvent) -> dict[str, Any]:
    try:
        decoded: Any = json.loads(event.data)
    except (ValueError, RecursionError):
        return {}
    return as_object(decoded)


def _check_chunk(chunk: Mapping[str, Any]) -> None:
    """Raise the failure of a run that the gateway flags as failed; without any text it would be a 502."""
    if _first_choice(chunk).get("finish_reason") != "error" and "error" not in chunk:
        return
    error = chunk.get("error") or as_object(chunk.get("hermes")).get("error")
    message = as_object(error).get("message", error)
    error_text = (
        failures.scrubbed(message)[: failures.MAX_BODY_CHARACTERS] if isinstance(message, str) else ""
    )
    log.error("hermes-agent 502: %s", error_text)
    raise failures.failure("hermes-error", f"[hermes-agent error 502] {error_text or 'the run failed'}")


def _first_choice(chunk: Mapping[str, Any]) -> dict[str, Any]:
    with suppress(KeyError, IndexError, TypeError):
        return as_object(chunk["choices"][0])
    return {}


def _delta(chunk: Mapping[str, Any]) -> str:
    """The text of a chunk; what the model only thinks is not shown."""
    text = as_object(_first_choice(chunk).get("delta")).get("content")
    return text if isinstance(text, str) else ""


def _report_tool(sink: Sink, progress: Mapping[str, Any], tools: dict[str, str]) -> None:
    """Report that a tool was called, or that it is through."""
    name, call = str(progress.get("tool") or "tool"), str(progress.get("toolCallId") or "")
    if progress.get("status", "running") == "running":
        started = sink.tool_start(name, progress.get("label"), call or None)
        tools[call or name] = started
    elif known := tools.pop(call or name, ""):
        sink.tool_end(known, error=progress.get("error"))


def _report_usage(sink: Sink, data: Any, model: str) -> None:
    answer = as_object(data)
    usage = as_object(answer.get("usage"))
    tokens = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    counts = [one if isinstance(one, int) and one >= 0 else 0 for one in tokens]
    if any(counts):
        sink.usage(str(answer.get("model") or model), counts[0], counts[1])


def _retry_after(reply: OpenReply) -> float | None:
    """The seconds after which a busy gateway wants to be asked again; None when it does not say."""
    if reply.status not in BUSY:
        return None
    return retry_after_seconds(reply.headers.get("retry-after", ""))


def retry_after_seconds(value: str) -> float | None:
    """`Retry-After` in seconds, from a number or a date; None when it is neither."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value), 1e9)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError):
        return None
