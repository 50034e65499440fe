"""The conformance checks pass on a good agent, and name what is wrong with a broken one."""

import asyncio
import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from molecule_a2a import AgentApp, Turn
from molecule_runtime.testing import conformance
from molecule_runtime.testing.probe import Probe
from molecule_wire.a2a import text

FAULTS = {
    "a Message after a Task": ("stream 1.0", "a message came after the task was completed"),
    "a cancel that is ignored": ("cancel", "a cancelled task still works"),
    "a redelivery that runs twice": ("redelivery", "a message that came again was handled again"),
    "a card that promises too much": ("card keeps its word", "send 1.0"),
    "0.3 refused": ("send 0.3", "was refused"),
}


async def answer(turn: Turn) -> str:
    message_text = text.text_of_message(turn.message)
    if message_text.startswith("/sleep"):
        await asyncio.sleep(60)
    return f"echo: {message_text}"


class Broken:
    """A good agent behind a front that breaks one promise."""

    def __init__(self, url: str, fault: str) -> None:
        self._good = AgentApp(answer, {"name": "Agent", "description": "", "version": "1"}, url=url)
        self._fault = fault

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        if scope["type"] == "http":
            more = True
            while more:
                event = await receive()
                body, more = body + event.get("body", b""), event.get("more_body", False)
        request: Any = json.loads(body) if body else {}
        method = str(request.get("method", ""))
        if self._fault == "0.3 refused" and "/" in method:
            request["method"] = "NoSuchMethod"
        if self._fault == "a cancel that is ignored" and method == "CancelTask":
            request["method"] = "GetTask"
        if self._fault == "a redelivery that runs twice":
            scope = {
                **scope,
                "headers": [row for row in scope["headers"] if row[0] != b"x-molecule-message-id"],
            }
        sent: bytes | None = json.dumps(request).encode() if body else b""

        async def again() -> Any:
            nonlocal sent
            if sent is None:
                return await receive()
            reply, sent = sent, None
            return {"type": "http.request", "body": reply}

        async def front(event: Any) -> None:
            await send(self._spoilt(event, str(request.get("id")), scope.get("path", "")))

        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        await self._good({**scope, "headers": headers}, again, front)

    def _spoilt(self, event: Any, rpc_id: str, path: str) -> Any:
        body = event.get("body", b"")
        if self._fault == "a Message after a Task" and b"TASK_STATE_COMPLETED" in body:
            message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "and"}]}
            extra = {"jsonrpc": "2.0", "id": rpc_id, "result": {"message": message}}
            return {**event, "body": body + b"data: " + json.dumps(extra).encode() + b"\n\n"}
        if self._fault == "a card that promises too much" and "/.well-known/" in path:
            if event["type"] == "http.response.start":
                kept = [row for row in event["headers"] if row[0] != b"content-length"]
                return {**event, "headers": kept}
            if body:
                card = json.loads(body)
                card["supportedInterfaces"][0]["url"] += "nowhere"
                return {**event, "body": json.dumps(card).encode()}
        return event


@contextmanager
def serving(fault: str) -> Generator[str]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        url = f"http://127.0.0.1:{opened.getsockname()[1]}/"
        config = uvicorn.Config(Broken(url, fault), lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([opened],), daemon=True)
        thread.start()
        yield url
        server.should_exit = server.force_exit = True
        thread.join(10)


def failed_checks(fault: str) -> dict[str, str]:
    with serving(fault) as url:
        results = list(conformance.run(Probe(url)))
        return {result.name: result.problem for result in results if not result.passed}


def test_a_good_agent_passes_every_check() -> None:
    assert failed_checks("") == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_agent_is_told_what_is_wrong(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "CANCEL_SECONDS", 1.0)
    check, sentence = FAULTS[fault]
    failed = failed_checks(fault)
    assert sentence in failed.get(check, ""), failed
