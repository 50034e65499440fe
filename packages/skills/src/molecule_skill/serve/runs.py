"""Routes of runs: look, follow, cancel, answer, download."""

import re
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from molecule_a2a import asgi
from molecule_skill.auth import bearer_token
from molecule_skill.errors import RunRefused
from molecule_skill.hosted import Answerer
from molecule_skill.hosted.interface import Gate
from molecule_skill.serve import shapes, streams
from molecule_skill.serve.asgi import Answer, AsgiRequest, Response, Stream, json_response, with_pings
from molecule_skill.serve.readers import ReaderCounts
from molecule_skill.store.records import ArtifactRecord
from molecule_wire import JSON, JSONObject

MAX_WAIT_SECONDS = 30.0
MAX_PAGE = 1000
PIECE_BYTES = 1024 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class RunRoutes:
    """Shows each caller its own runs; for anybody else they do not exist."""

    def __init__(self, gate: Gate, readers: ReaderCounts) -> None:
        self._gate = gate
        self._readers = readers

    async def show(self, request: AsgiRequest, run_id: str) -> Answer:
        """`GET /runs/{id}`."""
        return json_response(await self._shown(run_id, await self._principal(request)))

    async def cancel(self, request: AsgiRequest, run_id: str) -> Answer:
        """`POST /runs/{id}/cancel`: what is over already is shown unchanged."""
        principal = await self._principal(request)
        await request.body()
        await self._gate.cancel(run_id, principal)
        return json_response(await self._shown(run_id, principal))

    async def events(self, request: AsgiRequest, run_id: str) -> Answer:
        """`GET /runs/{id}/events`: a page as JSON, or a stream that goes on where the client was cut off."""
        principal = await self._principal(request)
        record = await self._gate.run(run_id, principal)
        seen = streams.cursor(run_id, request.headers.get("last-event-id"), request.query.get("after")) or 0
        streams.check_cursor(record, seen)
        if request.accepts_stream:
            pieces = streams.frames(self._gate.reader(run_id, principal), run_id, seen)
            return Stream(self._readers.counted(run_id, with_pings(pieces, streams.PING_SECONDS)))
        wait = _number(request, "wait", 0.0, MAX_WAIT_SECONDS)
        limit = int(_number(request, "limit", MAX_PAGE, MAX_PAGE)) or 1
        found = (
            []
            if seen > record.last_seq
            else await self._gate.reader(run_id, principal).events(after=seen, limit=limit, wait=wait)
        )
        rows: list[JSON] = [shapes.dated_event(stored) for stored in found]
        return json_response({"events": rows, "next": found[-1].seq if found else seen})

    async def artifact(self, request: AsgiRequest, run_id: str, name: str) -> Answer:
        """`GET /runs/{id}/artifacts/{name}`, whole or a range of it."""
        principal = await self._principal(request)
        record = await self._gate.artifact(run_id, principal, name)
        headers = {
            "etag": f'"{record.sha256}"',
            "accept-ranges": "bytes",
            "cache-control": "private, no-cache",
            # A file of an agent is never run as a page of this origin.
            "content-disposition": f"attachment; filename*=UTF-8''{quote(name.rpartition('/')[2], safe='')}",
            "content-security-policy": "sandbox; default-src 'none'",
            "x-content-type-options": "nosniff",
        }
        media = record.mime_type if _is_media(record.mime_type) else "application/octet-stream"
        if f'"{record.sha256}"' in request.headers.get("if-none-match", ""):
            return Response(304, b"", media, headers)
        byte_range = _range(request, record)
        if byte_range is None:
            return self._download(record, 0, record.size_bytes, 200, media, headers)
        start, end = byte_range
        if start >= end:
            headers["content-range"] = f"bytes */{record.size_bytes}"
            return Response(416, b"", media, headers)
        headers["content-range"] = f"bytes {start}-{end - 1}/{record.size_bytes}"
        return self._download(record, start, end, 206, media, headers)

    async def answer(self, request: AsgiRequest, request_id: str, member: str, kind: str) -> Answer:
        """`POST /answers/{q}` and `/input-requests/{ir}`: answer an interaction, or decline it."""
        _, by = await self.identify(request)
        body = await request.json_object()
        run_id, reason, declined = body.get("run_id"), body.get("reason", ""), body.get("declined", False)
        if not isinstance(declined, bool) or not isinstance(reason, str):
            raise RunRefused("invalid-request", "declined must be true or false, and reason a text")
        if run_id is not None and not isinstance(run_id, str):
            raise RunRefused("invalid-request", "run_id must be a text")
        if not declined and member not in body:
            raise RunRefused("invalid-request", f'send {{"{member}": …}}, or {{"declined": true}}')
        state = await self._gate.answer(
            request_id, by, body.get(member), declined=declined, reason=reason, kind=kind, run_id=run_id
        )
        return json_response({"state": state.value})

    async def identify(self, request: AsgiRequest) -> tuple[Any, Answerer]:
        """Return the caller and its identity as an answerer. Raises AuthError."""
        model, caller = await self._gate.identify(bearer_token(request.headers), request.headers)
        asgi.count_connection(request.scope, caller.principal)
        return model, caller

    async def _principal(self, request: AsgiRequest) -> str:
        return (await self.identify(request))[1].principal

    async def _shown(self, run_id: str, principal: str) -> JSONObject:
        reader = self._gate.reader(run_id, principal)
        waits_for = shapes.open_interaction(await reader.interactions())
        return shapes.run(await reader.record(), waits_for, await reader.artifacts())

    def _download(
        self, record: ArtifactRecord, start: int, end: int, status: int, media: str, headers: dict[str, str]
    ) -> Stream:
        async def pieces() -> AsyncGenerator[bytes]:
            place = start
            while place < end:
                size = min(PIECE_BYTES, end - place)
                piece = await self._gate.read_artifact(record, start=place, length=size)
                if not piece:
                    return
                place += len(piece)
                yield piece

        head = {"content-type": media, "content-length": str(end - start), **headers}
        encoded = tuple((name.encode(), text.encode("latin-1", "replace")) for name, text in head.items())
        return Stream(pieces(), status, encoded)


def _number(request: AsgiRequest, name: str, default: float, most: float) -> float:
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise RunRefused("invalid-request", f"{name} must be a number from 0 to {most:g}")
    return value


def _range(request: AsgiRequest, record: ArtifactRecord) -> tuple[int, int] | None:
    """The range that is asked for, empty when it cannot be had; None for the whole file (RFC 9110, 14)."""
    found = _RANGE.fullmatch(request.headers.get("range", ""))
    condition = request.headers.get("if-range")
    if found is None or not any(found.groups()) or condition not in (None, f'"{record.sha256}"'):
        return None
    first, last = found.groups()
    size = record.size_bytes
    if not first:
        return max(size - int(last), 0), size
    if last and int(last) < int(first):
        return None
    return int(first), min(int(last) + 1, size) if last else size


def _is_media(text: str) -> bool:
    return re.fullmatch(r"[\w.+-]{1,64}/[\w.+-]{1,64}(; ?[\w.+-]+=[\w.+-]+)*", text, re.ASCII) is not None
