"""An A2A 1.0 agent that costs almost nothing: it answers a Message, or a stream as long as it is asked for.

A streamed message whose text is a number N gets N events, each sent by itself and with the time of it; with
`N slowly` they come ten milliseconds apart. The text `hold` gets a Task and then nothing, for ever.

usage: python -m benchmarks.echo_agent PORT
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import uvicorn
from uvicorn import _types as asgi

from molecule_wire import ids

PACE_SECONDS = 0.01
TOLD_AT = "told at "
_JSON = [(b"content-type", b"application/json")]
_STREAM = [(b"content-type", b"text/event-stream")]


async def app(scope: Any, receive: asgi.ASGIReceiveCallable, send: asgi.ASGISendCallable) -> None:
    body = b""
    more = True
    while more:
        part: Any = await receive()
        body += part["body"]
        more = part["more_body"]
    request: Any = msgspec.json.decode(body)
    if request["method"] == "SendStreamingMessage":
        await _stream(request, send)
        return
    said = {"message": {"messageId": ids.uuid7(), "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}}
    answer = msgspec.json.encode({"jsonrpc": "2.0", "id": request["id"], "result": said})
    length = (b"content-length", str(len(answer)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*_JSON, length], "trailers": False})
    await send({"type": "http.response.body", "body": answer, "more_body": False})


async def _stream(request: Any, send: asgi.ASGISendCallable) -> None:
    words = request["params"]["message"]["parts"][0]["text"]
    await send({"type": "http.response.start", "status": 200, "headers": _STREAM, "trailers": False})
    count, _, slowly = words.partition(" ")
    for event in _events(0 if words == "hold" else int(count)):
        frame = msgspec.json.encode({"jsonrpc": "2.0", "id": request["id"], "result": event})
        await send({"type": "http.response.body", "body": b"data: " + frame + b"\n\n", "more_body": True})
        await asyncio.sleep(PACE_SECONDS if slowly else 0)
    if words == "hold":
        await asyncio.Event().wait()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _events(count: int) -> Iterator[Any]:
    """A Task, updates of its one artifact, and its end; for none, the Task alone."""
    task_id, context_id = ids.uuid7(), ids.uuid7()
    where = {"taskId": task_id, "contextId": context_id}
    working = {"state": "TASK_STATE_WORKING"}
    yield {"task": {"id": task_id, "contextId": context_id, "status": working}}
    for number in range(count - 2):
        artifact = {"artifactId": "out", "parts": [{"text": f"{TOLD_AT}{time.monotonic_ns()}"}]}
        yield {"artifactUpdate": {**where, "artifact": artifact, "append": number > 0}}
    if count > 1:
        yield {"statusUpdate": {**where, "status": {"state": "TASK_STATE_COMPLETED"}}}


if __name__ == "__main__":
    config = uvicorn.Config(
        app, port=int(sys.argv[1]), interface="asgi3", lifespan="off", access_log=False, log_level="error"
    )
    uvicorn.Server(config).run()
