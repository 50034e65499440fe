"""The links against a real platform process: registration, heartbeats, delegations, signed callers."""

import asyncio
import contextlib
import json
import sqlite3
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from molecule_runtime.domain.capabilities import RuntimeCapabilities
from molecule_runtime.links import registration, tokens
from molecule_runtime.links.callers import CallerAccepted, CallerRefused, CallerVerifier, PlatformKeys
from molecule_runtime.links.delegation_results import DelegationResults
from molecule_runtime.links.heartbeat import HeartbeatLoop
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.links.registration import RegistrationRequest
from molecule_wire.calls import CallFailed, Registration
from packages.runtime.tests.links.manual_time import until
from scripts import live_platform
from scripts.live_platform import LivePlatform

CARD: dict[str, Any] = {"name": "agent", "skills": []}


class Adapter:
    """An adapter whose idle timeout the test changes."""

    override: int | None = None

    def capabilities(self) -> RuntimeCapabilities:
        return RuntimeCapabilities(provides_native_session=True)

    def idle_timeout_override(self) -> int | None:
        return self.override


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePlatform]:
    with live_platform.running(tmp_path_factory.mktemp("live") / "data", RATE_LIMIT="0") as platform:
        yield platform


def call(live: LivePlatform, method: str, path: str, body: Any = None, token: str = "") -> Any:
    """A call of the administrator, or of whoever has the token."""
    headers = {"Authorization": f"Bearer {token or live.admin_token()}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(live.url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def create(live: LivePlatform, name: str, parent: str | None = None) -> tuple[str, str]:
    """A new workspace: its id, and the token of its agent."""
    made = call(live, "POST", "/workspaces", {"name": name, "runtime": "external", "parent_id": parent})
    return made["id"], made["connection"]["auth_token"]


@pytest.fixture
async def boss(live: LivePlatform) -> AsyncIterator[PlatformClient]:
    """A registered workspace, whose token is that of this process."""
    workspace_id, token = create(live, "boss")
    tokens.save_token(token)
    client = PlatformClient(live.url, workspace_id)
    answer = await registration.register(client, RegistrationRequest("", CARD, delivery_mode="poll"))
    assert isinstance(answer, Registration)
    yield client
    await client.close()


def stored_timeout(live: LivePlatform, workspace_id: str) -> int | None:
    query = "SELECT idle_timeout_seconds FROM workspaces WHERE id = ?"
    with contextlib.closing(sqlite3.connect(live.data_dir / "molecule.db")) as database:
        return database.execute(query, (workspace_id,)).fetchone()[0]


async def test_a_first_registration_without_a_token_claims_the_workspace(live: LivePlatform) -> None:
    workspace_id, _ = create(live, "claimed")
    client = PlatformClient(live.url, workspace_id)
    answer = await registration.register(client, RegistrationRequest("", CARD))
    assert isinstance(answer, Registration)
    assert tokens.get_token() == answer.auth_token
    assert (await client.workspace_info())["status"] == "online"
    await client.close()


async def test_the_idle_timeout_is_stored_replaced_and_cleared(
    live: LivePlatform, boss: PlatformClient
) -> None:
    adapter, (other, _) = Adapter(), create(live, "other")
    loop = HeartbeatLoop(live.url, boss.workspace_id, client=boss, adapter=adapter)
    for override, kept in ((600, 600), (60, 60), (None, None), (7, 7), (0, None)):
        adapter.override = override
        assert await loop.beat() == "taken"
        await until(lambda kept=kept: stored_timeout(live, boss.workspace_id) == kept)
    assert stored_timeout(live, other) is None
    info = await boss.workspace_info()
    assert info["capabilities"] == RuntimeCapabilities(provides_native_session=True).to_dict()
    adapter.override = 90
    assert set(await asyncio.gather(*(loop.beat() for _ in range(8)))) == {"taken"}
    await until(lambda: stored_timeout(live, boss.workspace_id) == 90)


async def test_a_heartbeat_for_nobody_is_refused(live: LivePlatform, boss: PlatformClient) -> None:
    nobody = PlatformClient(live.url, "")
    loop = HeartbeatLoop(live.url, "", client=nobody, adapter=Adapter())
    assert await loop.beat() == "failed"
    await nobody.close()


async def test_a_removed_workspace_is_told_so(live: LivePlatform, boss: PlatformClient) -> None:
    call(live, "DELETE", f"/workspaces/{boss.workspace_id}?confirm=true")
    loop = HeartbeatLoop(live.url, boss.workspace_id, client=boss, adapter=Adapter())
    assert await loop.beat() == "removed"


async def test_a_delegation_comes_back_as_a_message(
    live: LivePlatform, boss: PlatformClient, configs: Path
) -> None:
    worker, token = create(live, "worker", boss.workspace_id)
    inbox = f"/workspaces/{worker}/inbox"
    call(live, "POST", "/registry/register", {"id": worker, "url": "", "agent_card": CARD}, token)
    assert worker in [peer["id"] for peer in await boss.peers()]
    delegation_id = (await boss.delegate(worker, "count to three", "key-1"))["delegation_id"]
    assert (await boss.delegate(worker, "count to three", "key-1"))["delegation_id"] == delegation_id
    [message] = call(live, "POST", f"{inbox}/lease", {"wait": 10}, token)["messages"]
    answer = {"lease_token": message["lease"]["token"], "text": "one two three"}
    call(live, "POST", f"{inbox}/{message['message_id']}/answer", answer, token)
    results = DelegationResults(boss, configs / "results.jsonl")
    await results.check()
    await results.check()
    leased = await boss.lease(worker="w", limit=10, wait=1)
    [wake_up] = leased.messages
    assert f"{delegation_id}: completed" in wake_up.text
    assert "one two three" not in wake_up.text
    [line] = (configs / "results.jsonl").read_text().splitlines()
    assert json.loads(line)["response_preview"] == "one two three"
    assert (await boss.delegation(str(delegation_id)))["status"] == "completed"


async def test_what_the_platform_pushes_is_signed_for_this_workspace(
    live: LivePlatform, boss: PlatformClient
) -> None:
    pushed: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()

    async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head)}
        body = await reader.readexactly(int(headers["content-length"]))
        pushed.put_nowait((headers, body))
        message: dict[str, Any] = {"kind": "message", "role": "agent", "messageId": "a", "parts": []}
        answer = json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": message}).encode()
        length = f"content-length: {len(answer)}\r\nconnection: close\r\n\r\n".encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + length + answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(agent, "127.0.0.1", 0)
    secret = registration.new_dispatch_secret()
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    registered = await registration.register(boss, RegistrationRequest(url, CARD, "push", secret))
    assert isinstance(registered, Registration)
    message = {"role": "user", "messageId": "m1", "parts": [{"kind": "text", "text": "hi"}]}
    sent = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    path = f"/workspaces/{boss.workspace_id}/a2a"
    calling = asyncio.create_task(asyncio.to_thread(call, live, "POST", path, sent))
    headers, body = await pushed.get()
    keys = PlatformKeys(boss.platform_url, boss.jwks)
    verifier = CallerVerifier(boss.workspace_id, keys, live.url, policy="always", dispatch_secret=secret)
    accepted = await verifier.verify("127.0.0.1", headers, body)
    assert isinstance(accepted, CallerAccepted), accepted
    assert accepted.caller is not None
    assert accepted.caller.verified
    assert accepted.has_dispatch_secret
    assert accepted.claims["message_id"] == "m1"
    assert isinstance(await verifier.verify("127.0.0.1", headers, body), CallerRefused), "it is good once"
    await calling
    await keys.close()
    server.close()


async def test_a_revoked_token_is_noticed(live: LivePlatform, boss: PlatformClient) -> None:
    tokens.save_token("another")
    with pytest.raises(CallFailed):
        await boss.peers()
    assert boss.auth_lost
