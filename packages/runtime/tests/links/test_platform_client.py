"""The platform client against a real HTTP server on loopback."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from molecule_agent.testing import FakePlatform
from molecule_runtime.links import http_client, platform_client, tokens
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.ports.platform import Platform
from molecule_wire import JSON
from molecule_wire.calls import CallFailed, Request
from packages.runtime.tests.links.manual_time import ManualTime, until


def answer_with(platform: FakePlatform, method: str, path: str, body: JSON, status: int = 200) -> None:
    platform.fail_next(method, path, status, body=body)


async def test_every_call_says_who_makes_it(platform: FakePlatform, url: str, workspace_id: str) -> None:
    tokens.save_token("secret")
    made = PlatformClient(url + "/", workspace_id, org_id="org-1", traceparent=lambda: "00-a-b-01")
    client: Platform = made
    answer_with(platform, "GET", "/workspaces/*", {"id": workspace_id, "name": "agent"})
    assert await client.workspace_info() == {"id": workspace_id, "name": "agent"}
    headers = platform.requests[0].headers
    assert headers["Authorization"] == "Bearer secret"
    assert headers["X-Workspace-ID"] == workspace_id
    assert headers["X-Molecule-Org-Id"] == "org-1"
    assert headers["traceparent"] == "00-a-b-01"
    assert headers["User-Agent"].startswith("molecule-ai-workspace-runtime/")
    assert "Cookie" not in headers
    await made.close()


async def test_the_calls_of_the_port(platform: FakePlatform, registered: PlatformClient) -> None:
    rows: list[JSON] = [{"id": "p", "parent_id": None}]
    answer_with(platform, "GET", "/registry/*/peers", rows)
    answer_with(platform, "GET", "/workspaces/*/shared-context", [{"path": "a", "content": "b"}])
    answer_with(platform, "GET", "/workspaces/*/instructions/resolve", {"instructions": "Be brief."})
    answer_with(platform, "POST", "/workspaces/*/delegate", {"delegation_id": "d"}, 202)
    answer_with(platform, "GET", "/workspaces/*/delegations", [{"delegation_id": "d"}])
    answer_with(platform, "GET", "/workspaces/*/delegations/d", {"delegation_id": "d", "status": "completed"})
    answer_with(platform, "POST", "/workspaces/*/notify", {"status": "sent"})
    answer_with(platform, "POST", "/workspaces/*/activity", {"status": "logged"})
    answer_with(platform, "GET", "/registry/discover/*", {"url": "http://p/a2a"})
    assert await registered.peers() == rows
    assert await registered.shared_context("parent") == [{"path": "a", "content": "b"}]
    assert await registered.instructions() == "Be brief."
    assert await registered.delegate("p", "work", "key") == {"delegation_id": "d"}
    assert await registered.delegations() == [{"delegation_id": "d"}]
    assert (await registered.delegation("d"))["status"] == "completed"
    await registered.notify("done", [{"uri": "u", "name": "n"}], type="info")
    await registered.log_activity("error", "it failed", error_detail="why", method="", duration_ms=0)
    assert await registered.discover("p") == "http://p/a2a"
    sent = {request.path.rpartition("/")[2]: request.json for request in platform.requests}
    assert sent["notify"] == {"message": "done", "type": "info", "attachments": [{"uri": "u", "name": "n"}]}
    assert sent["activity"] == {
        "activity_type": "error",
        "summary": "it failed",
        "error_detail": "why",
        "duration_ms": 0,
    }


async def test_the_card_and_the_state_of_the_workspace(
    platform: FakePlatform, registered: PlatformClient, workspace_id: str
) -> None:
    answer_with(platform, "POST", "/registry/update-card", {"status": "updated"})
    await registered.update_card({"name": "renamed"})
    platform.set_secret(workspace_id, "KEY", "value")
    assert await registered.secrets() == {"KEY": "value"}
    assert not (await registered.state()).paused
    platform.pause(workspace_id)
    assert (await registered.state()).paused


async def test_a_leased_message_is_answered(
    platform: FakePlatform, registered: PlatformClient, workspace_id: str
) -> None:
    first, second, third = (platform.send_user_message(workspace_id, text) for text in ("a", "b", "c"))
    leased = await registered.lease(worker="w1", limit=3, wait=0)
    leases = {message.message_id: message.lease for message in leased.messages}
    held = {name: lease.token for name, lease in leases.items() if lease is not None}
    assert not (await registered.extend(first, held[first], 60)).cancel_requested
    assert not await registered.progress(first, held[first], text="half")
    await registered.answer(first, held[first], text="done")
    await registered.fail(second, held[second], error="broken", retryable=False)
    await registered.release(third, held[third])
    assert platform.outcome(first)["status"] == "answered"
    assert platform.outcome(second)["status"] == "failed"
    assert platform.outcome(third)["status"] == "accepted"
    with pytest.raises(CallFailed) as refused:
        await registered.release(third, held[third])
    assert refused.value.code == "lease-lost"


async def test_what_may_be_repeated_is_tried_three_times(
    platform: FakePlatform, registered: PlatformClient, manual_time: ManualTime
) -> None:
    platform.fail_next("GET", "/registry/*/peers", 503, times=2)
    assert await registered.peers() == []
    assert manual_time.slept == [1.0, 2.0]
    platform.drop_next("GET", "/registry/*/peers", times=3)
    with pytest.raises(ConnectionError):
        await registered.peers()
    assert manual_time.slept == [1.0, 2.0, 1.0, 2.0]
    platform.fail_next("GET", "/registry/*/peers", 429, retry_after=7)
    assert await registered.peers() == []
    assert manual_time.slept[-1] == 7.0


async def test_what_may_not_be_repeated_is_sent_once(
    platform: FakePlatform, registered: PlatformClient, manual_time: ManualTime
) -> None:
    before = len(platform.requests)
    platform.fail_next("POST", "/workspaces/*/notify", 503)
    with pytest.raises(CallFailed) as refused:
        await registered.notify("hello")
    assert refused.value.status == 503
    platform.drop_next("POST", "/workspaces/*/notify")
    with pytest.raises(OSError, match="notify"):
        await registered.notify("hello")
    assert len(platform.requests) == before + 2
    assert manual_time.slept == []


async def test_a_message_is_the_same_when_it_is_sent_again(
    platform: FakePlatform, registered: PlatformClient
) -> None:
    platform.fail_next("POST", "/workspaces/*/a2a", 502)
    answer_with(platform, "POST", "/workspaces/*/a2a", {"jsonrpc": "2.0", "result": {}}, 202)
    assert await registered.send_message("p", "hi", wait=False) == {"jsonrpc": "2.0", "result": {}}
    first, second = (one for one in platform.requests if one.path == "/workspaces/p/a2a")
    assert first.json == second.json
    assert second.headers["Prefer"] == "respond-async"


async def test_after_a_401_the_token_is_read_once_again(
    platform: FakePlatform, registered: PlatformClient, configs: Path
) -> None:
    good = tokens.get_token() or ""
    tokens.clear_cache()
    (configs / ".auth_token").write_text("stale")
    assert tokens.get_token() == "stale"
    (configs / ".auth_token").write_text(good)
    assert await registered.peers() == []
    assert not registered.auth_lost


async def test_a_token_that_nobody_takes_is_said_once_a_minute(
    platform: FakePlatform,
    registered: PlatformClient,
    workspace_id: str,
    manual_time: ManualTime,
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = tokens.get_token() or ""
    tokens.save_token("wrong")
    with caplog.at_level(logging.ERROR, "molecule_runtime"):
        for _ in range(3):
            with pytest.raises(CallFailed):
                await registered.peers()
        assert registered.auth_lost
        assert len(caplog.records) == 1
        manual_time.now += platform_client.AUTH_LOG_SECONDS
        with pytest.raises(CallFailed):
            await registered.peers()
        assert len(caplog.records) == 2
    assert "wrong" not in caplog.text
    tokens.save_token(good)
    await registered.peers()
    assert not registered.auth_lost


async def test_a_platform_that_is_not_there_is_an_os_error(manual_time: ManualTime) -> None:
    client = PlatformClient("http://127.0.0.1:9", "w", time_source=manual_time.source)
    with pytest.raises(OSError, match="peers"):
        await client.peers()
    await client.close()


async def test_a_silent_platform_is_a_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass
        writer.close()
        ended.set()

    ended = asyncio.Event()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    http = http_client.HttpClient(f"http://127.0.0.1:{port}")
    with pytest.raises(TimeoutError):
        await http.send(Request("GET", "/"), {}, http_client.Timeouts(1.0, 0.05))
    await http.close()
    await ended.wait()
    server.close()


async def test_a_certificate_is_checked(
    configs: Path, self_signed: Callable[[Path, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        writer.close()

    certificate = self_signed(configs, "localhost")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    http = http_client.HttpClient(f"https://localhost:{server.sockets[0].getsockname()[1]}")
    with pytest.raises(ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        await http.send(Request("GET", "/"), {}, platform_client.CALL_TIMEOUTS)
    await http.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert (await http.send(Request("GET", "/"), {}, platform_client.CALL_TIMEOUTS)).body == {}
    await http.close()
    server.close()


async def test_redirects_are_not_followed(platform: FakePlatform, registered: PlatformClient) -> None:
    platform.fail_next("GET", "/registry/*/peers", 307)
    with pytest.raises(CallFailed) as refused:
        await registered.peers()
    assert refused.value.status == 307


async def test_a_body_is_bounded_and_need_not_be_json(platform: FakePlatform, url: str) -> None:
    http = http_client.HttpClient(url)
    answer_with(platform, "GET", "/long", "x" * 1000)
    with pytest.raises(CallFailed, match="larger than 100 bytes"):
        await http.send(Request("GET", "/long"), {}, platform_client.CALL_TIMEOUTS, max_bytes=100)
    platform.fail_next("GET", "/page", 200, body=b"<html>")
    reply = await http.send(Request("GET", "/page"), {}, platform_client.CALL_TIMEOUTS)
    assert (reply.readable, reply.body) == (False, None)
    await http.close()


async def test_connections_in_use_are_closed_after_their_answer(
    platform: FakePlatform, registered: PlatformClient, workspace_id: str
) -> None:
    waiting = asyncio.create_task(registered.lease(worker="w", wait=30))
    await until(lambda: any(request.path.endswith("/lease") for request in platform.requests))
    await registered.close()
    platform.send_user_message(workspace_id, "hi")
    assert [message.text for message in (await waiting).messages] == ["hi"]


@pytest.mark.parametrize("wrong", ["", "ftp://platform", "platform:8080", "http://"])
def test_a_url_that_is_none_is_refused_at_once(wrong: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        PlatformClient(wrong, "w")
