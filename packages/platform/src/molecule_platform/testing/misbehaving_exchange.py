"""One request at the rude agent's socket, and the ways to answer it or not to."""

import asyncio
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from molecule_wire import JSON, JSONObject, ids, jsontext
from molecule_wire.a2a import convert, envelopes, operations, sse
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.tasks import TaskState

_REASONS = {200: "OK", 202: "Accepted", 302: "Found", 429: "Too Many Requests", 503: "Service Unavailable"}
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)
MAX_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Arrival:
    """A request as it came; the names of headers are in lower case."""

    headers: Mapping[str, str]
    body: bytes
    request: A2ARequest


@dataclass
class Exchange:
    """A request and the connection it came on."""

    arrival: Arrival
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def request(self) -> A2ARequest:
        return self.arrival.request

    async def reply(self, status: int, body: bytes, **headers: str) -> None:
        """A whole response; underscores in the names of headers stand for dashes."""
        named = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Because')}"]
        lines += [f"{name}: {value}" for name, value in named.items()]
        await self.write("\r\n".join([*lines, "", ""]).encode() + body)

    async def result(self, result: JSONObject, status: int = 200) -> None:
        """A JSON-RPC result, given in 1.0 and said in the dialect of the request."""
        await self.reply(
            status, jsontext.encode(envelopes.result_envelope(self.request.id, self.said(result)))
        )

    def said(self, result: JSONObject) -> JSON:
        """A 1.0 result in the dialect of the request."""
        converter = convert.between("1.0", self.request.dialect)
        return result if converter is None else converter.result(self.request.operation, result)

    async def begin_stream(self) -> None:
        await self.write(_STREAM_HEAD)

    async def event(self, number: int, event: JSONObject, *, cut_after: int | None = None) -> None:
        """One event of a stream, perhaps only the first bytes of it."""
        whole = sse.frame(number, envelopes.result_envelope(self.request.id, self.said(event)))
        frame = whole[:cut_after]
        await self.write(b"%x\r\n%s\r\n" % (len(frame), frame))

    async def end_stream(self) -> None:
        await self.write(b"0\r\n\r\n")

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hung_up(self) -> None:
        """Wait until whoever called has gone."""
        while await self.reader.read(1024):
            pass

    def reset(self) -> None:
        """End the connection with a reset instead of a goodbye."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@dataclass
class RudeTask:
    """A task that goes on after its stream or answer has ended; it completes after some looks at it."""

    id: str
    context_id: str
    words: str
    looks_left: int = 0
    ended: TaskState | None = None

    def look(self) -> None:
        """Somebody asked how it is."""
        self.looks_left -= 1
        if self.looks_left < 0 and self.ended is None:
            self.ended = TaskState.COMPLETED

    def snapshot(self) -> JSONObject:
        """The Task as it is."""
        return {"id": self.id, "contextId": self.context_id, "status": self._status()}

    def update(self) -> JSONObject:
        """Its status as an event."""
        update: JSONObject = {"taskId": self.id, "contextId": self.context_id, "status": self._status()}
        return {"statusUpdate": update}

    def artifact(self, words: str | None = None) -> JSONObject:
        """Its words, or others, as an event."""
        artifact: JSONObject = {"artifactId": "out", "parts": [{"text": words or f"re: {self.words}"}]}
        return {"artifactUpdate": {"taskId": self.id, "contextId": self.context_id, "artifact": artifact}}

    def _status(self) -> JSONObject:
        status: JSONObject = {"state": (self.ended or TaskState.WORKING).value}
        if self.ended is TaskState.COMPLETED:
            status["message"] = said(f"re: {self.words}", self.context_id)
        return status


def said(words: str, context_id: str) -> JSONObject:
    """A message of the agent."""
    parts: list[JSON] = [{"text": words}]
    return {"messageId": ids.uuid7(), "role": "ROLE_AGENT", "contextId": context_id, "parts": parts}


async def read(reader: asyncio.StreamReader) -> Arrival:
    """One request off the socket; a broken one is a ValueError or an IncompleteReadError."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    length = int(headers.get("content-length", "0"))
    if length > MAX_BODY_BYTES:
        raise ValueError("the body is too large")
    body = await reader.readexactly(length)
    request = envelopes.parse_request(body, version=headers.get("a2a-version"), lenient=True)
    return Arrival(headers, body, request)


SENDS = (operations.SEND, operations.STREAM)
