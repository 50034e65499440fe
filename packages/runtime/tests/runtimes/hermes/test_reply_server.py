"""What the reply server answers, case by case."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from molecule_runtime.runtimes.hermes import reply_server
from molecule_runtime.runtimes.hermes.executor import SECRET_HEADER, HermesAgentProxyExecutor
from packages.runtime.tests.runtimes.hermes.gateways import make_executor

REQUIRED = {"ok": False, "error": "reply_to and content required"}


@pytest.fixture
async def made(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HermesAgentProxyExecutor]:
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", "true")
    monkeypatch.setenv("MOLECULE_A2A_CALLBACK_PORT", "0")
    executor = make_executor()
    await executor.start()
    yield executor
    await executor.stop()


async def post(made: HermesAgentProxyExecutor, content: bytes, path: str = "/a2a/reply") -> httpx.Response:
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:
        return await client.post(f"http://127.0.0.1:{made._callback_port}{path}", content=content)


async def test_each_case_has_its_answer(made: HermesAgentProxyExecutor) -> None:
    cases: list[tuple[bytes, int, dict[str, Any]]] = [
        (b"not json", 400, {"ok": False, "error": "invalid json"}),
        (b"", 400, {"ok": False, "error": "invalid json"}),
        (b"\xff\xfe", 400, {"ok": False, "error": "invalid json"}),
        (b"[" * 100_000, 400, {"ok": False, "error": "invalid json"}),
        (b"[1, 2]", 400, REQUIRED),
        (b"null", 400, REQUIRED),
        (b"{}", 400, REQUIRED),
        (b'{"reply_to": "m"}', 400, REQUIRED),
        (b'{"reply_to": 5, "content": "x"}', 400, REQUIRED),
        (b'{"reply_to": "", "content": "x"}', 400, REQUIRED),
        (b'{"reply_to": "m", "content": null}', 400, REQUIRED),
        (b'{"reply_to": "m", "content": "x"}', 200, {"ok": True, "stale": True}),
    ]
    for content, status, body in cases:
        answer = await post(made, content)
        assert (answer.status_code, answer.json()) == (status, body)


async def test_other_routes_and_methods_are_refused(made: HermesAgentProxyExecutor) -> None:
    assert (await post(made, b"{}", "/a2a/other")).status_code == 404
    assert (await post(made, b"{}", "/a2a/health")).status_code == 405
    made._pending["m"] = asyncio.get_running_loop().create_future()
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:
        url = f"http://127.0.0.1:{made._callback_port}"
        assert (await client.get(f"{url}/a2a/reply")).status_code == 405
        assert (await client.get(f"{url}/a2a/health")).json() == {"ok": True, "pending": 1}
    made._pending.pop("m").cancel()


async def test_a_body_that_is_too_large_is_refused(
    made: HermesAgentProxyExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reply_server.MAX_BODY_BYTES == 8 * 1024 * 1024
    monkeypatch.setattr(reply_server, "MAX_BODY_BYTES", 100)
    assert (await post(made, b'{"content": "' + b"x" * 100 + b'"}')).status_code == 413


class PlainRequest:
    """As little as the handler needs."""

    def __init__(self, headers: dict[str, str], body: Any) -> None:
        self.headers = headers
        self._body = body

    async def json(self) -> Any:
        return self._body


async def test_the_handler_needs_headers_and_json_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_SHARED_SECRET", "öffne dich")
    made = make_executor()
    future = made._pending["m"] = asyncio.get_running_loop().create_future()
    body = {"reply_to": "m", "content": "answer"}
    refused = await made._handle_reply(PlainRequest({}, body))
    assert (refused.status, json.loads(refused.body)) == (401, {"ok": False, "error": "unauthorized"})
    taken = await made._handle_reply(PlainRequest({SECRET_HEADER.lower(): "öffne dich"}, body))
    assert (taken.status, json.loads(taken.body)) == (200, {"ok": True})
    assert future.result() == "answer"
