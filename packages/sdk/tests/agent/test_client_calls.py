"""The client's calls over real HTTP: what is sent, what comes back, what is tried again."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
import requests

from molecule_agent import RemoteAgentClient, RetryPolicy, errors, make_idempotency_key
from molecule_agent.handlers import LoopThread
from molecule_agent.session import PlatformSession, origin_of, traceparent
from molecule_agent.testing import FakeResponse
from molecule_wire import JSON
from molecule_wire.calls import InboundMessage, Lease, plugins, workspaces

if TYPE_CHECKING:
    from .conftest import Answer, FastClock, MakeClient, ScriptedPlatform  # noqa: TID252 - types only, never imported

ME = "/workspaces/3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
WORKSPACE = ME.rpartition("/")[2]
STATE = {"workspace_id": WORKSPACE, "status": "online", "paused": False, "deleted": False}


def test_a_call_carries_credentials_tenant_origin_and_agent(
    platform: "ScriptedPlatform", make_client: "MakeClient"
) -> None:
    platform.ok("GET", f"{ME}/secrets/values", {"KEY": "value"})
    client = make_client(org_id="acme")
    client.save_token("token")
    assert client.pull_secrets() == {"KEY": "value"}
    headers = platform.seen[0].headers
    assert headers["authorization"] == "Bearer token"
    assert headers["x-molecule-org-id"] == "acme"
    assert headers["origin"] == platform.url
    assert headers["user-agent"].startswith("molecule-ai-sdk/")
    assert "traceparent" not in headers


def test_without_a_token_the_call_is_made_without_authorization(
    platform: "ScriptedPlatform", make_client: "MakeClient"
) -> None:
    platform.ok("GET", f"{ME}/state", STATE)
    assert make_client(origin=None).poll_state().status == "online"
    assert not {"authorization", "origin"} & set(platform.seen[0].headers)


def test_the_trace_of_the_work_in_hand_is_passed_on(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    platform.ok("GET", f"{ME}/state", STATE)
    reset = traceparent.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    client.poll_state()
    traceparent.reset(reset)
    assert platform.seen[0].headers["traceparent"].startswith("00-0af7")


def test_a_netrc_entry_does_not_replace_the_bearer(
    platform: "ScriptedPlatform", client: RemoteAgentClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    platform.ok("GET", f"{ME}/state", STATE)
    client.poll_state()
    assert platform.seen[0].headers["authorization"] == "Bearer token-of-the-agent"


def test_cookies_are_refused(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    platform.on("GET", f"{ME}/state", answer(200, STATE, {"Set-Cookie": "a=b"}))
    client.poll_state()
    client.poll_state()
    assert "cookie" not in platform.seen[1].headers


def test_a_redirect_to_another_origin_is_not_followed(
    platform: "ScriptedPlatform",
    other_platform: "ScriptedPlatform",
    client: RemoteAgentClient,
    answer: "type[Answer]",
) -> None:
    platform.on("GET", f"{ME}/state", answer(302, None, {"Location": f"{other_platform.url}/elsewhere"}))
    with pytest.raises(errors.ApiError):
        client.poll_state()
    assert other_platform.seen == []


def test_a_redirect_inside_the_origin_keeps_the_bearer(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    platform.on("GET", f"{ME}/state", answer(307, None, {"Location": "/elsewhere"}))
    platform.ok("GET", "/elsewhere", STATE)
    client.poll_state()
    assert platform.requests("GET", "/elsewhere")[0].headers["authorization"]


def test_a_forked_process_opens_connections_of_its_own() -> None:
    session = PlatformSession()
    parents = session.get_adapter("http://127.0.0.1")
    assert session.get_adapter("http://127.0.0.1") is parents
    session._pid = os.getpid() + 1
    assert session.get_adapter("http://127.0.0.1") is not parents
    session.close()


def test_a_forked_process_runs_async_handlers_on_a_loop_of_its_own() -> None:
    async def thread() -> int:
        return threading.get_ident()

    runner = LoopThread()
    parents = runner.run(thread())
    assert runner.run(thread()) == parents
    orphaned, runner._pid = runner._loop, os.getpid() + 1
    assert runner.run(thread()) != parents
    runner.close()
    assert orphaned is not None
    orphaned.call_soon_threadsafe(orphaned.stop)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTP://Example.org:80/x", "http://example.org"),
        ("https://example.org:8443", "https://example.org:8443"),
        ("http://[::1]:8080/a", "http://[::1]:8080"),
    ],
)
def test_one_origin_has_one_spelling(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize("workspace_id", ["", "../up", "a/b", "-a", "a" * 129, "a\n"])
def test_an_id_that_is_no_path_segment_is_refused(workspace_id: str) -> None:
    with pytest.raises(errors.ConfigurationError):
        RemoteAgentClient(workspace_id, "http://127.0.0.1")


@pytest.mark.parametrize("url", ["", "molecule.example.org", "ftp://x", "http://"])
def test_a_url_that_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not a platform URL"):
        RemoteAgentClient("w", url)


def test_defaults_and_warnings_of_the_constructor(caplog: pytest.LogCaptureFixture) -> None:
    client = RemoteAgentClient("abcdefghij", "http://molecule.example.org:8080/")
    assert client.platform_url == client.origin == "http://molecule.example.org:8080"
    assert client.agent_card == {"name": "remote-agent-abcdefgh"}
    assert client.token_file == Path.home() / ".molecule" / "abcdefghij" / ".auth_token"
    assert client.plugins_dir == client.token_file.parent / "plugins"
    assert client.proxy_url("a/b") == "http://molecule.example.org:8080/workspaces/a%2Fb/a2a"
    assert caplog.text.count("not encrypted") == 1
    RemoteAgentClient("abcdefghij", "http://localhost")
    assert caplog.text.count("not encrypted") == 1


def test_a_heartbeat_says_what_it_is_told(platform: "ScriptedPlatform", client: RemoteAgentClient) -> None:
    platform.ok("POST", "/registry/heartbeat", {"status": "ok"})
    client.heartbeat("indexing", 2, 0.5, "x" * 2000, runtime_metadata={"capabilities": {}})
    body = platform.seen[0].json
    assert body.pop("sample_error") == "x" * 1000
    assert body == {
        "workspace_id": WORKSPACE,
        "current_task": "indexing",
        "active_tasks": 2,
        "error_rate": 0.5,
        "uptime_seconds": 0,
        "runtime_metadata": {"capabilities": {}},
    }


def test_a_token_file_that_vanished_is_written_again_after_a_heartbeat(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    platform.ok("POST", "/registry/heartbeat", {"status": "ok"})
    client.token_file.unlink()
    client.heartbeat()
    assert client.token_file.read_text() == "token-of-the-agent"


def test_the_small_calls(platform: "ScriptedPlatform", client: RemoteAgentClient) -> None:
    platform.ok("GET", ME, {"id": WORKSPACE, "name": "docs-bot"})
    platform.ok("POST", "/registry/update-card", {"status": "updated"})
    platform.ok("POST", f"{ME}/notify", {"status": "sent"})
    assert client.whoami()["name"] == "docs-bot"
    client.update_card({"name": "new"})
    assert client.agent_card == {"name": "new"}
    client.notify("done", [{"uri": "u", "name": "n"}])
    assert platform.seen[-1].json == {"message": "done", "attachments": [{"uri": "u", "name": "n"}]}


@pytest.mark.parametrize("status", [404, 410])
def test_a_removed_workspace_is_told_from_a_stray_404(
    status: int, platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    platform.on("GET", f"{ME}/state", answer(status, {"deleted": True}))
    state = client.poll_state()
    assert (state.status, state.deleted, state.should_stop) == ("removed", True, True)


def test_a_404_of_the_platform_never_means_removed_and_a_stray_one_only_the_third_time(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    coded, stray = answer(404, {"error": "no", "code": "not-found"}), answer(404, b"<html>")
    platform.on("GET", f"{ME}/state", coded, coded, coded, coded, stray, stray, coded, stray, stray, stray)
    for _ in range(9):
        with pytest.raises(errors.NotFoundError):
            client.poll_state()
    assert client.poll_state().deleted


def test_a_token_rotated_by_another_process_is_adopted_and_the_call_repeated_once(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    def check(seen: Any) -> "Answer":
        right = seen.headers["authorization"] == "Bearer new"
        return answer(200, STATE) if right else answer(401, {"error": "no", "code": "token-revoked"})

    platform.on("GET", f"{ME}/state", check)
    with pytest.raises(errors.TokenRejectedError, match="401 token-revoked: no"):
        client.poll_state()
    assert len(platform.seen) == 1
    client.token_file.write_text("new")
    assert client.poll_state().status == "online"
    assert len(platform.seen) == 3


def test_a_429_is_tried_again_after_what_the_platform_says(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    busy = answer(429, {"error": "slow down", "code": "rate-limited"}, {"Retry-After": "7"})
    platform.on("GET", f"{ME}/state", busy, busy, answer(200, STATE))
    assert make_client(clock=clock).poll_state().status == "online"
    assert clock.slept == [7.0, 7.0]


def test_after_three_repeats_the_429_is_raised(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    platform.on(
        "GET", f"{ME}/state", answer(429, {"error": "slow", "code": "rate-limited", "retry_after": 1})
    )
    with pytest.raises(errors.RateLimitedError) as caught:
        make_client(clock=clock).poll_state()
    assert len(platform.seen) == 4
    assert len(clock.slept) == 3
    assert caught.value.retry_after == 1


def test_a_500_is_not_tried_again_unless_the_policy_says_so(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    away = answer(503, {"error": "restarting", "code": "platform-unavailable"})
    platform.on("GET", f"{ME}/state", away, away, answer(drop=True), answer(200, STATE))
    with pytest.raises(errors.UnavailableError):
        make_client(clock=clock).poll_state()
    client = make_client(clock=clock, retry=RetryPolicy.resilient())
    assert client.poll_state().status == "online"


def test_no_answer_at_all_is_unreachable(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    platform.on("GET", f"{ME}/state", answer(drop=True))
    with pytest.raises(requests.ConnectionError) as caught:
        client.poll_state()
    assert isinstance(caught.value, errors.PlatformUnreachableError)


def test_fetching_inbound_rows(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    rows = answer(200, [{"id": "1", "data": {"text": "hi", "source": "user"}}])
    busy = answer(429, None, {"Retry-After": "2"})
    platform.on("GET", f"{ME}/activity", rows, busy, busy, rows, answer(410, None))
    client = make_client(clock=clock)
    assert [message.text for message in client.fetch_inbound()] == ["hi"]
    assert platform.seen[0].query == {"type": "a2a_receive", "limit": "100"}
    found = client.fetch_inbound("0", 5, peer_id="p", before_ts="t", wait=2.5)
    assert [message.source for message in found] == ["canvas_user"]
    query = {"type": "a2a_receive", "limit": "5", "since_id": "0", "peer_id": "p", "before_ts": "t"}
    assert [seen.query for seen in platform.seen[1:]] == [query | {"wait": "2.5"}, query, query]
    assert clock.slept == [2.0]
    with pytest.raises(errors.CursorLostError):
        client.fetch_inbound("0")


def test_a_reply_to_a_person_is_a_notification_that_names_the_message(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    platform.ok("POST", f"{ME}/notify", {"status": "sent"})
    client.reply(InboundMessage("row", "canvas_user", "", "hi", message_id="m"), "hello")
    assert platform.seen[0].json == {"message": "hello"}
    assert platform.seen[0].headers["x-molecule-in-reply-to"] == "m"


def test_progress_of_a_leased_message_hears_of_a_cancel(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    message = InboundMessage("row", "peer_agent", "p", "hi", message_id="m", lease=Lease("t", 0.0, 1))
    platform.ok("POST", f"{ME}/inbox/m/progress", {"seq": 1, "cancel_requested": True})
    client.progress(message, "half")
    assert platform.seen[0].json == {"lease_token": "t", "text": "half", "number": 1}
    assert message.cancelled.is_set()
    with pytest.raises(ValueError, match="needs a message with a lease"):
        client.progress(InboundMessage("row", "peer_agent", "p", "hi"), "half")


@pytest.mark.parametrize(
    ("text", "now", "key"),
    [
        ("index the docs", 1767225600, "167a44af3a455f3586be898cc0f74a799a258b0429931a23db1ac0c6ae4c242b"),
        ("hello", 0, "49f2b5d7b9c6d17346f22546dec90cc44b0de21d1021a8f554314eb150e0bfe2"),
    ],
)
def test_idempotency_keys_are_those_of_the_contract(
    text: str, now: int, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molecule_agent.client.time.time", lambda: float(now) + 59.9)
    assert make_idempotency_key(text) == key


def test_a_client_closes_only_the_session_it_opened() -> None:
    session = requests.Session()
    with RemoteAgentClient("w", "http://127.0.0.1", session=session):
        pass
    assert session.adapters["http://"] is not None


def test_a_delegation_names_the_target_in_its_path_and_the_caller_in_a_header(
    platform: "ScriptedPlatform", make_client: "MakeClient", clock: "FastClock"
) -> None:
    client = make_client(clock=clock)
    platform.ok("POST", "/workspaces/peer-1/delegate", {"delegation_id": "d1", "status": "delegated"})
    assert client.delegate("index the docs", "peer-1")["delegation_id"] == "d1"
    seen = platform.seen[0]
    assert seen.json == {
        "task": "index the docs",
        "idempotency_key": "167a44af3a455f3586be898cc0f74a799a258b0429931a23db1ac0c6ae4c242b",
    }
    assert seen.headers["x-workspace-id"] == WORKSPACE
    client.delegate("other", "peer-1", "my-key")
    assert platform.seen[1].json == {"task": "other", "idempotency_key": "my-key"}
    platform.ok("GET", f"{ME}/delegations/d1", {"delegation_id": "d1", "outcome": "completed"})
    assert client.get_delegation("d1")["outcome"] == "completed"


def test_a_delegation_that_is_sent_again_has_the_same_body(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    made = answer(202, {"delegation_id": "d1"})
    path = "/workspaces/peer-1/delegate"
    platform.on(
        "POST", path, answer(429, headers={"Retry-After": "70"}), answer(drop=True), answer(503), made
    )
    client = make_client(clock=clock, retry=RetryPolicy.resilient())
    assert client.delegate("index the docs", "peer-1") == {"delegation_id": "d1"}
    assert len(platform.seen) == 4
    assert all(seen.json == platform.seen[0].json for seen in platform.seen)
    assert clock.slept[0] == 30.0


def test_a_key_that_was_used_for_another_task_is_told_with_its_delegation(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    refusal = {"error": "used", "code": "idempotency-conflict", "existing_id": "d0"}
    platform.on("POST", "/workspaces/peer-1/delegate", answer(409, refusal))
    with pytest.raises(errors.IdempotencyConflictError) as raised:
        client.delegate("other", "peer-1", "my-key")
    assert raised.value.extras == {"existing_id": "d0"}


def test_other_posts_are_never_sent_again(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]"
) -> None:
    platform.on("POST", f"{ME}/notify", answer(503), answer(200))
    with pytest.raises(errors.UnavailableError):
        make_client(retry=RetryPolicy.resilient()).notify("hello")
    assert len(platform.seen) == 1


def test_a_call_of_every_method_is_sent_and_repeated_by_the_one_rule(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    client = make_client(clock=clock, retry=RetryPolicy.resilient())
    done = answer(200, {"status": "saved"})
    platform.on("PUT", f"{ME}/model", answer(503), answer(drop=True), done)
    platform.on("DELETE", f"{ME}/plugins/p", answer(429), done)
    platform.on("PATCH", ME, answer(503), done)
    put = workspaces.choose_model(WORKSPACE, "m")
    assert client._perform(put, workspaces.read_object) == {"status": "saved"}
    assert [seen.json for seen in platform.seen] == [{"model": "m"}] * 3
    client._perform(plugins.forget(WORKSPACE, "p"), workspaces.read_nothing)
    with pytest.raises(errors.UnavailableError):
        client._perform(workspaces.change(WORKSPACE, {"role": "x"}), workspaces.read_nothing)
    assert [seen.method for seen in platform.seen] == ["PUT"] * 3 + ["DELETE"] * 2 + ["PATCH"]
    assert platform.seen[-1].json == {"role": "x"}


def test_a_session_without_a_method_is_told_which_one_it_lacks(make_client: "MakeClient") -> None:
    session = MagicMock(spec=["get", "post"])
    client = make_client(session=session)
    with pytest.raises(errors.ConfigurationError, match="no method patch"):
        client._perform(workspaces.change(WORKSPACE, {"role": "x"}), workspaces.read_nothing)


def test_a_date_to_come_back_at_is_read_by_the_clock_of_whoever_wrote_it(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    later = {"Retry-After": "Sat, 02 May 2026 10:00:07 GMT"}
    fine = answer(200, STATE)
    platform.on(
        "GET", f"{ME}/state", answer(429, headers=later | {"Date": "Sat, 02 May 2026 10:00:00 GMT"}), fine
    )
    make_client(clock=clock).poll_state()
    platform.on("GET", f"{ME}/state", answer(429, headers=later), fine)
    make_client(clock=clock).poll_state()
    assert clock.slept == [7.0, 30.0]


def test_one_client_serves_many_threads_at_once(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    platform.ok("GET", f"{ME}/secrets/values", {"KEY": "value"})
    platform.ok("GET", f"{ME}/state", STATE)
    platform.ok("GET", f"/registry/{WORKSPACE}/peers", [{"id": "p1", "url": "http://127.0.0.1:9/"}])
    platform.ok("POST", "/registry/heartbeat", {})

    def work(number: int) -> None:
        client.save_token(f"token-{number}")
        assert client.pull_secrets() == {"KEY": "value"}
        assert client.poll_state().status == "online"
        assert client.get_peers()[0].id == "p1"
        client.invalidate_peer_url("p1")
        client.heartbeat()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(32)))
    assert client.token_file.read_text() == client.load_token()
    assert len(platform.seen) == 4 * 32


@pytest.mark.parametrize(
    "call", ["pull_secrets", "heartbeat", "get_peers", "poll_state", "register", "notify"]
)
def test_a_page_that_is_not_the_platform_s_is_an_error_though_it_says_200(call: str, tmp_path: Path) -> None:
    page = FakeResponse(200, text="<html>sign in</html>")
    session = MagicMock()
    session.get.return_value = session.post.return_value = page
    client = RemoteAgentClient("w", "https://platform.test", token_dir=tmp_path, session=session)
    client.save_token("t")
    with pytest.raises(errors.ApiError, match="200: the answer is not JSON: is this the address of the plat"):
        getattr(client, call)(*(["done"] if call == "notify" else []))


def test_secrets_that_are_no_object_are_an_error_and_none_are_none(tmp_path: Path) -> None:
    session, wrong = MagicMock(), list[JSON]([[], "text", 4])
    client = RemoteAgentClient("w", "https://platform.test", token_dir=tmp_path, session=session)
    for body in wrong:
        session.get.return_value = FakeResponse(200, json_body=body)
        with pytest.raises(errors.ApiError, match="no JSON object"):
            client.pull_secrets()
    session.get.return_value = FakeResponse(200, json_body={})
    assert client.pull_secrets() == {}
    session.get.return_value = FakeResponse(200, content=b"")
    assert client.pull_secrets() == {}
