"""Everything in the same second: a burst of sends, a webhook that sleeps, a card, a heartbeat."""

import asyncio
import contextlib
import resource
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import aiohttp
import pytest
import requests
from aiohttp import web

from molecule_platform.testing import servers
from tests.e2e.platform_process import PlatformProcess

MANY = 2_000
AGENTS = 4
WEBHOOK_SECONDS = 30.0
PATIENCE_SECONDS = 90.0
PROMPT_SECONDS = 20.0
"""How long a heartbeat may take while 2,000 senders stand in line; an agent gives up after ten."""


@pytest.fixture
def agent_url() -> Iterator[str]:
    """The scripted agent in a process of its own."""
    port = servers.free_port()
    module = "molecule_platform.testing.scripted_agent"
    agent = subprocess.Popen([sys.executable, "-m", module, str(port)])
    url = f"http://127.0.0.1:{port}/"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with contextlib.suppress(requests.ConnectionError, requests.Timeout):
            requests.get(url + ".well-known/agent-card.json", timeout=5)
            break
        assert time.monotonic() < deadline, "the agent did not start"
        time.sleep(0.05)
    yield url
    agent.kill()
    agent.wait()


def join(process: PlatformProcess, url: str, name: str) -> tuple[str, str]:
    body = {"name": name, "runtime": "external", "max_concurrent_tasks": 64}
    created = process.ok("POST", "/workspaces", json=body)
    token = created["connection"]["auth_token"]
    card = requests.get(url + ".well-known/agent-card.json", timeout=30).json()
    register = {"id": created["id"], "url": url, "agent_card": card}
    process.ok("POST", "/registry/register", token=token, json=register)
    return created["id"], token


class Crowd:
    """Asks the platform, and says how long each answer took."""

    def __init__(self, session: aiohttp.ClientSession, process: PlatformProcess) -> None:
        self._session = session
        self._url = process.url
        self._token = process.admin_token()

    async def call(
        self, method: str, path: str, token: str | None = None, **request: Any
    ) -> tuple[int, Any, float]:
        began = time.perf_counter()
        headers = {"Authorization": f"Bearer {token or self._token}", "A2A-Version": "1.0"}
        async with self._session.request(method, self._url + path, headers=headers, **request) as answer:
            body = await answer.json()
            return answer.status, body, time.perf_counter() - began

    async def send(self, target: str, message_id: str, **configuration: Any) -> tuple[int, Any, float]:
        message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        params = {"message": message, "configuration": configuration}
        body = {"jsonrpc": "2.0", "id": message_id, "method": "SendMessage", "params": params}
        return await self.call("POST", f"/agents/{target}/", json=body)


@contextlib.asynccontextmanager
async def sleeping_webhook() -> AsyncGenerator[tuple[str, list[float]]]:
    """A webhook that takes its time; yields its URL, and when it was called."""
    called: list[float] = []

    async def hook(_request: web.Request) -> web.Response:
        called.append(time.monotonic())
        await asyncio.sleep(WEBHOOK_SECONDS)
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", hook)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook", called
    finally:
        await runner.cleanup()


@pytest.mark.e2e
@pytest.mark.both_engines
@pytest.mark.slow  # real processes and hundreds of sends at once
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("process", "sends"),
    [
        ("sqlite", MANY // 4),
        pytest.param("sqlite", MANY, marks=pytest.mark.long),
        pytest.param("postgres", MANY, marks=pytest.mark.long),
    ],
    indirect=["process"],
)
async def test_a_burst_wedges_nothing_and_the_heartbeat_answers(
    process: PlatformProcess, agent_url: str, sends: int
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    process.environment["MOLECULE_PUSH_ALLOW_PRIVATE"] = "true"
    # All of them come from one address, and from one person.
    process.environment |= {"MOLECULE_MAX_CONNECTIONS": "0", "MOLECULE_MAX_OPEN_REQUESTS": "0"}
    await asyncio.to_thread(process.start)
    joined = [await asyncio.to_thread(join, process, agent_url, f"agent-{n}") for n in range(AGENTS)]
    targets = [workspace_id for workspace_id, _ in joined]
    timeout = aiohttp.ClientTimeout(PATIENCE_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        sleeping_webhook() as (hook, called),
        aiohttp.ClientSession(timeout=timeout, connector=connector) as session,
    ):
        crowd = Crowd(session, process)
        watched = await crowd.send(targets[0], "complete-first", taskPushNotificationConfig={"url": hook})
        assert "task" in watched[1]["result"], watched
        burst = [asyncio.create_task(crowd.send(targets[n % AGENTS], f"message-{n}")) for n in range(sends)]
        card = asyncio.create_task(crowd.call("GET", f"/agents/{targets[1]}/.well-known/agent-card.json"))
        beat = asyncio.create_task(
            crowd.call(
                "POST",
                "/registry/heartbeat",
                token=joined[2][1],
                json={"workspace_id": targets[2], "active_tasks": 0, "error_rate": 0.0},
            )
        )
        for asked in (beat, card):
            status, _, seconds = await asked
            assert status == 200
            assert seconds < PROMPT_SECONDS
        answers = await asyncio.gather(*burst)
        assert {status for status, _, _ in answers} == {200}
        assert all("message" in body["result"] for _, body, _ in answers)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not called:
            assert time.monotonic() < deadline, "the webhook was never called"
            await asyncio.sleep(0.05)
