"""A response may take longer than every deadline for its request, however the request was cut."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest, StreamResponse, TaskState

from molecule_platform.testing import scripted_agent, servers
from molecule_platform.testing.scripted_agent import ScriptedAgent
from tests.e2e import http_servers
from tests.e2e.platform_process import PlatformProcess

pytestmark = pytest.mark.slow  # the answers take their time

ANSWER_SECONDS = 3.0
LONG_SECONDS = 60.0
LATEST_SECONDS = 90.0


@dataclass(frozen=True)
class Scene:
    """A platform with short deadlines, and an agent that answers late."""

    process: PlatformProcess
    workspace_id: str
    token: str

    @property
    def base(self) -> str:
        return f"{self.process.url}/agents/{self.workspace_id}/"


def join(process: PlatformProcess, agent_url: str) -> Scene:
    created = process.ok(
        "POST", "/workspaces", json={"name": "late", "runtime": "external", "max_concurrent_tasks": 1000}
    )
    body = {
        "id": created["id"],
        "url": agent_url,
        "agent_card": {"name": "late", "capabilities": {"streaming": True}},
    }
    process.ok("POST", "/registry/register", token=created["connection"]["auth_token"], json=body)
    token = process.ok("POST", "/org/tokens", json={"scopes": ["org"]})["auth_token"]
    return Scene(process, created["id"], token)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("long")
    prefixes = {"": f"slow:{ANSWER_SECONDS}"}
    with (
        http_servers.short_platform(folder, MOLECULE_MAX_AGENT_STREAMS="1000") as process,
        scripted_agent.running(ScriptedAgent(prefixes)) as agent_url,
    ):
        yield join(process, agent_url)


def request_bytes(scene: Scene, method: str, number: int) -> bytes:
    """Return one A2A request with a message and a conversation of its own."""
    message = {"messageId": f"cut-{method}-{number}", "contextId": f"c{number}", "role": "user"}
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": {"message": {**message, "parts": [{"kind": "text", "text": "hello"}]}},
        }
    ).encode()
    head = (
        f"POST /workspaces/{scene.workspace_id}/a2a HTTP/1.1\r\nHost: 127.0.0.1:{scene.process.port}\r\n"
        f"Authorization: Bearer {scene.token}\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def exchange(port: int, first: bytes, second: bytes) -> bytes:
    """Send a request in two segments; return the whole response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(LATEST_SECONDS):
        writer.write(first)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(second)
        response = await reader.read()
    writer.close()
    return response


@pytest.mark.parametrize("method", ["message/send", "message/stream"])
async def test_every_cut_of_a_request_gets_its_late_response(scene: Scene, method: str) -> None:
    length = len(request_bytes(scene, method, 100))

    async def cut(place: int) -> bytes:
        whole = request_bytes(scene, method, 100 + place)
        return await exchange(scene.process.port, whole[:place], whole[place:])

    responses = await asyncio.gather(*(cut(place) for place in range(1, length)))
    complete = [place for place, text in enumerate(responses, 1) if b"completed" in text]
    rest = [text for text in responses if b"completed" not in text]
    assert len(complete) == length - 1, rest[:2]
    if method == "message/stream":
        assert all(text.endswith(b"0\r\n\r\n") for text in responses)


async def official_client(scene: Scene, http: httpx.AsyncClient, *, streaming: bool) -> Client:
    card = await A2ACardResolver(http, scene.base).get_agent_card()
    config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=["JSONRPC"])
    return ClientFactory(config).create(card)


async def last_state(scene: Scene, *, streaming: bool) -> TaskState:
    """Send a message with the official client; return the state in which it saw the task last."""
    headers = {"Authorization": f"Bearer {scene.token}"}
    async with httpx.AsyncClient(headers=headers, timeout=LATEST_SECONDS, trust_env=False) as http:
        client = await official_client(scene, http, streaming=streaming)
        message = new_text_message("hello", role=Role.ROLE_USER)
        state = TaskState.TASK_STATE_UNSPECIFIED
        async for event in client.send_message(SendMessageRequest(message=message)):
            state = state_of(event) or state
    return state


def state_of(event: StreamResponse) -> TaskState | None:
    if event.HasField("task"):
        return event.task.status.state
    return event.status_update.status.state if event.HasField("status_update") else None


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_official_client_gets_its_late_response(scene: Scene, streaming: bool) -> None:
    states = await asyncio.gather(*(last_state(scene, streaming=streaming) for _ in range(7)))
    assert states == [TaskState.TASK_STATE_COMPLETED] * 7


@pytest.mark.long
@pytest.mark.parametrize("streaming", [False, True])
async def test_the_official_client_waits_a_minute_with_the_usual_deadlines(
    tmp_path: Path, streaming: bool
) -> None:
    process = PlatformProcess(servers.free_port(), tmp_path / "data")
    process.environment |= {"MOLECULE_ALLOW_PRIVATE_URLS": "loopback", "MOLECULE_A2A_HOLD_SECONDS": "80"}
    process.start()
    try:
        with scripted_agent.running(ScriptedAgent({"": f"slow:{LONG_SECONDS}"})) as agent_url:
            scene, began = join(process, agent_url), time.monotonic()
            assert await last_state(scene, streaming=streaming) == TaskState.TASK_STATE_COMPLETED
            assert time.monotonic() - began >= LONG_SECONDS
    finally:
        process.stop()
