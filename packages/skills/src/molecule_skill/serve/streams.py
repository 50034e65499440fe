"""Server-sent events of a run: its events, then the result or the error, then `[DONE]`.

The id of a frame is `<run id>:<number>`. The frame after the last event, which has the outcome, is counted
on from it, so every cut has an id from which the stream goes on.
"""

from collections.abc import AsyncGenerator
from typing import Any

from molecule_skill.errors import RunRefused
from molecule_skill.hosted.run_reader import RunReader
from molecule_skill.serve import shapes
from molecule_skill.store.records import RunRecord, StoredEvent
from molecule_wire import JSONObject, jsontext
from molecule_wire.a2a import sse

PING_SECONDS = 15.0
DONE = b"data: [DONE]\n\n"


def cursor(run_id: str, last_event_id: str | None, after: str | None) -> int | None:
    """How many frames the client has seen; None when it does not say. Raises RunRefused."""
    text = last_event_id if last_event_id is not None else after
    if text is None:
        return None
    name, colon, number = text.rpartition(":")
    if colon and name != run_id:
        raise RunRefused("invalid-request", f"Last-Event-ID {text[:80]!r} belongs to another run")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise RunRefused("invalid-request", "a cursor is the number of an event: <run id>:<n>, or after=<n>")
    return int(number)


def check_cursor(record: RunRecord, seen: int) -> None:
    """Raise RunRefused for a cursor beyond what the run has told."""
    newest = record.last_seq + (1 if record.state.is_final else 0)
    if seen > newest:
        sentence = f"the cursor {seen} is beyond the newest frame of the run, which is {newest}"
        raise RunRefused("cursor-ahead", sentence, run_id=record.run_id)


async def frames(reader: RunReader, run_id: str, seen: int) -> AsyncGenerator[bytes]:
    """The frames after those that were seen, live until the run is final."""
    record = await reader.record() if seen else None
    if record is None or seen <= record.last_seq:
        async for stored in reader.follow(after=seen):
            yield event_frame(run_id, stored)
        yield outcome_frame(await reader.record(), shapes.artifacts(run_id, await reader.artifacts()))
    yield DONE


def event_frame(run_id: str, stored: StoredEvent) -> bytes:
    """One event of a run."""
    data: JSONObject = {
        "type": "event",
        "seq": stored.seq,
        "run_id": run_id,
        "kind": stored.kind,
        "payload": stored.payload,
    }
    return _frame(run_id, stored.seq, data)


def outcome_frame(record: RunRecord, artifacts: list[Any]) -> bytes:
    """The result of a run, or why it has none."""
    data: JSONObject
    if record.failure is None:
        data = {
            "type": "result",
            "run_id": record.run_id,
            "result": record.result,
            "artifacts": artifacts,
            "grant_id": None,
        }
    else:
        failed = record.failure
        data = {
            **failed.extras,
            "type": "error",
            "run_id": record.run_id,
            "status": failed.status,
            "code": failed.code,
            "error": failed.error,
            "detail": failed.error,
        }
    return _frame(record.run_id, record.last_seq + 1, data)


def _frame(run_id: str, number: int, payload: JSONObject) -> bytes:
    data = sse.one_line(jsontext.encode(payload))
    return b"id: %b:%d\nevent: message\ndata: %b\n\n" % (run_id.encode(), number, data)
