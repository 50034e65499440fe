"""Finding peers, remembering where they are, calling them and waiting for their answers."""

import time
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from molecule_agent import RemoteAgentClient, RetryPolicy, errors

if TYPE_CHECKING:
    from .conftest import Answer, FastClock, MakeClient, ScriptedPlatform  # noqa: TID252 - types only

WORKSPACE = "3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
DISCOVER = ("GET", "/registry/discover/peer-1")
PROXY = ("POST", "/workspaces/peer-1/a2a")
HELLO = {
    "jsonrpc": "2.0",
    "id": "1",
    "result": {"kind": "message", "parts": [{"kind": "text", "text": "hello"}]},
}


def task(state: str, text: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"state": state}
    if text:
        status["message"] = {"role": "agent", "parts": [{"kind": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": "1", "result": {"kind": "task", "id": "t1", "status": status}}


def test_listing_peers_seeds_the_cache_and_survives_odd_rows(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    rows = [
        {"id": "peer-1", "name": "ops", "url": "https://x.example.org/a", "role": None, "tier": "?"},
        {"id": "peer-2", "name": "poll", "url": "remote://no-inbound"},
        {"name": "nobody"},
    ]
    platform.ok("GET", f"/registry/{WORKSPACE}/peers", rows)
    found = client.get_peers("a b")
    assert [(peer.id, peer.role, peer.tier) for peer in found] == [("peer-1", "", 2), ("peer-2", "", 2)]
    assert platform.seen[0].query == {"q": "a b"}
    assert platform.seen[0].headers["x-workspace-id"] == WORKSPACE
    assert client.discover_peer("peer-1") == "https://x.example.org/a"
    assert list(client._url_cache) == ["peer-1"]


def test_a_discovered_url_is_remembered_until_it_expires_or_is_invalidated(
    platform: "ScriptedPlatform", make_client: "MakeClient", clock: "FastClock"
) -> None:
    client = make_client(clock=clock, url_cache_ttl=10.0)
    platform.ok(*DISCOVER, {"url": "http://127.0.0.1:9/a2a"})
    for wait, discoveries in ((0, 1), (9, 1), (2, 2)):
        clock.now += wait
        assert client.discover_peer("peer-1") == "http://127.0.0.1:9/a2a"
        assert len(platform.seen) == discoveries
    client.invalidate_peer_url("peer-1")
    client.invalidate_peer_url("peer-1")
    client.discover_peer("peer-1")
    assert len(platform.seen) == 3


def test_an_unknown_peer_is_none_and_a_forbidden_one_an_error(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    denied = answer(403, {"error": "strangers", "code": "hierarchy-denied", "rule": "denied"})
    platform.on(*DISCOVER, answer(404, None), answer(200, {"url": "remote://x"}), denied)
    assert client.discover_peer("peer-1") is None
    assert client.discover_peer("peer-1") is None
    with pytest.raises(errors.AccessDeniedError, match="strangers") as caught:
        client.discover_peer("peer-1")
    assert caught.value.extras["rule"] == "denied"


def test_a_call_through_the_platform_is_one_message_send(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    platform.ok(*PROXY, HELLO)
    result = client.call_peer("peer-1", "hi", False, context_id="c", message_id="m", metadata={"k": 1})
    assert result == HELLO
    seen = platform.seen[0]
    assert seen.headers["x-workspace-id"] == WORKSPACE
    assert seen.json["method"] == "message/send"
    assert seen.json["params"]["message"] == {
        "role": "user",
        "messageId": "m",
        "parts": [{"kind": "text", "text": "hi"}],
        "contextId": "c",
        "metadata": {"k": 1},
    }


def test_when_the_discovered_url_is_the_proxy_there_is_one_post_and_its_error_is_raised(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    platform.ok(*DISCOVER, {"url": client.proxy_url("peer-1")})
    rpc_error = {"code": -32603, "message": "the peer is busy"}
    platform.on(
        *PROXY, answer(503, {"error": rpc_error, "code": "peer-busy", "busy": True, "retry_after": 30})
    )
    with pytest.raises(errors.PeerBusyError, match="the peer is busy") as caught:
        client.call_peer("peer-1", "hi")
    assert len(platform.requests(*PROXY)) == 1
    assert caught.value.extras["rpc_error"] == rpc_error
    assert caught.value.retry_after == 30


def test_a_foreign_url_gets_no_credentials(
    platform: "ScriptedPlatform", other_platform: "ScriptedPlatform", make_client: "MakeClient"
) -> None:
    client = make_client(org_id="acme")
    client.save_token("token")
    platform.ok(*DISCOVER, {"url": f"{other_platform.url}/a2a"})
    other_platform.ok("POST", "/a2a", HELLO)
    assert client.call_peer("peer-1", "hi") == HELLO
    assert not {"authorization", "x-molecule-org-id", "origin"} & set(other_platform.seen[0].headers)
    assert platform.requests(*PROXY) == []


@pytest.mark.parametrize("failing", ["dropped", "refused", "not json"])
def test_a_failing_direct_call_is_repeated_through_the_platform_with_the_same_body(
    failing: str,
    platform: "ScriptedPlatform",
    other_platform: "ScriptedPlatform",
    client: RemoteAgentClient,
    answer: "type[Answer]",
    caplog: pytest.LogCaptureFixture,
) -> None:
    scripts = {"dropped": answer(drop=True), "refused": answer(500, {}), "not json": answer(200, b"hello")}
    platform.ok(*DISCOVER, {"url": f"{other_platform.url}/a2a"})
    platform.ok(*PROXY, HELLO)
    other_platform.on("POST", "/a2a", scripts[failing])
    assert client.call_peer("peer-1", "hi") == HELLO
    assert platform.requests(*PROXY)[0].json == other_platform.seen[0].json
    assert client._url_cache == {}
    assert "direct call of peer-1 failed" in caplog.text


@pytest.mark.parametrize("problem", [RuntimeError("down"), KeyError("url"), TimeoutError()])
def test_whatever_a_double_raises_for_a_peer_leads_to_the_platform(
    problem: Exception, client: RemoteAgentClient
) -> None:
    answered = Mock(status_code=200, json=Mock(return_value=HELLO))
    client._url_cache["peer-1"] = ("http://127.0.0.1:9/a2a", time.time() + 60)
    client._session = Mock(post=Mock(side_effect=[problem, answered]), get=Mock(side_effect=problem))
    assert client.call_peer("peer-1", "hi") == HELLO


def test_a_failing_discovery_leads_to_the_platform(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    platform.on(*DISCOVER, answer(500, {}))
    platform.ok(*PROXY, HELLO)
    assert client.call_peer("peer-1", "hi") == HELLO


def test_a_call_through_the_platform_is_repeated_with_the_identical_body(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    client = make_client(clock=clock, retry=RetryPolicy.resilient())
    platform.on(*PROXY, answer(503, {}), answer(drop=True), answer(200, HELLO))
    assert client.call_peer("peer-1", "hi", False) == HELLO
    first, second, third = (seen.json for seen in platform.requests(*PROXY))
    assert first == second == third


def test_at_another_address_of_the_platform_a_message_is_sent_once(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    client = make_client(clock=clock, retry=RetryPolicy.resilient())
    platform.ok(*DISCOVER, {"url": f"{platform.url}/agents/peer-1/"})
    platform.on("POST", "/agents/peer-1/", answer(503, {}), answer(200, HELLO))
    platform.ok(*PROXY, HELLO)
    assert client.call_peer("peer-1", "hi") == HELLO
    assert len(platform.requests("POST", "/agents/peer-1/")) == 1


def test_asking_waits_for_an_open_task_with_growing_pauses(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    client = make_client(clock=clock)
    working = answer(200, task("working"))
    scripts = [
        answer(202, task("submitted")),
        working,
        working,
        working,
        answer(200, task("completed", "42")),
    ]
    platform.on(*PROXY, *scripts)
    assert client.ask_peer("peer-1", "what is it?") == "42"
    assert clock.slept == [1.0, 2.0, 4.0, 5.0]
    assert platform.seen[-1].json["method"] == "tasks/get"
    assert platform.seen[-1].json["params"] == {"id": "t1"}


def test_asking_outlives_a_restart_of_the_platform_once_the_message_is_accepted(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    scripts = [
        answer(202, task("submitted")),
        answer(drop=True),
        answer(503, {}),
        answer(200, task("completed", "42")),
    ]
    platform.on(*PROXY, *scripts)
    assert make_client(clock=clock).ask_peer("peer-1", "what is it?") == "42"
    platform.on(
        *PROXY, answer(202, task("submitted")), answer(403, {"error": "no", "code": "hierarchy-denied"})
    )
    with pytest.raises(errors.AccessDeniedError):
        make_client(clock=clock).ask_peer("peer-1", "what is it?")


def test_asking_takes_a_message_at_once(platform: "ScriptedPlatform", client: RemoteAgentClient) -> None:
    platform.ok(*PROXY, HELLO)
    assert client.ask_peer("peer-1", "hi") == "hello"


def test_asking_gives_up_at_its_deadline(
    platform: "ScriptedPlatform", make_client: "MakeClient", clock: "FastClock"
) -> None:
    platform.ok(*PROXY, task("working"))
    with pytest.raises(errors.DeadlineExceededError, match="within 10 s"):
        make_client(clock=clock).ask_peer("peer-1", "hi", timeout=10.0)


@pytest.mark.parametrize(
    ("envelope", "code", "sentence"),
    [
        ({"error": {"code": -32001, "message": "no such task", "data": []}}, -32001, "no such task"),
        (task("failed", "out of paper"), -32603, "out of paper"),
        (task("rejected"), -32603, "ended as rejected"),
    ],
)
def test_an_error_of_the_peer_is_an_a2a_error(
    envelope: dict[str, Any],
    code: int,
    sentence: str,
    platform: "ScriptedPlatform",
    client: RemoteAgentClient,
) -> None:
    platform.ok(*PROXY, envelope)
    with pytest.raises(errors.A2AError, match=sentence) as caught:
        client.ask_peer("peer-1", "hi")
    assert caught.value.code == code


# Peers by name


TREE: list[Any] = [
    {"id": "11111111-1111-4111-8111-111111111111", "name": "Lead", "parent_id": None},
    {
        "id": "22222222-2222-4222-8222-222222222222",
        "name": "writer",
        "parent_id": "11111111-1111-4111-8111-111111111111",
    },
    {"id": "33333333-3333-4333-8333-333333333333", "name": "writer", "parent_id": WORKSPACE},
    {"id": "44444444-4444-4444-8444-444444444444", "name": "sub/editor", "parent_id": "gone"},
]


@pytest.mark.parametrize(
    ("peer", "number"),
    [
        ("Lead", 1),
        ("lead", 1),
        ("LEAD", 1),
        ("Lead/writer", 2),
        ("lead/Writer", 2),
        ("me/writer", 3),
        ("sub/editor", 4),
        ("22222222-2222-4222-8222-222222222222", 2),
    ],
)
def test_a_peer_is_asked_by_its_name_its_path_or_its_id(
    peer: str, number: int, platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    platform.ok("GET", f"/registry/{WORKSPACE}/peers", TREE)
    platform.ok("GET", f"/workspaces/{WORKSPACE}", {"id": WORKSPACE, "name": "me"})
    target = f"/workspaces/{TREE[number - 1]['id']}/a2a"
    platform.ok("POST", target, {"result": {"kind": "message", "parts": [{"kind": "text", "text": "hi"}]}})
    assert client.ask(peer, "hello", context="talk") == "hi"
    assert platform.requests("POST", target)[0].json["params"]["message"]["contextId"] == "talk"
    assert len(platform.requests("GET", f"/registry/{WORKSPACE}/peers")) <= 1


def test_a_name_that_several_peers_bear_is_refused_with_their_ids_and_paths(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    platform.ok("GET", f"/registry/{WORKSPACE}/peers", TREE)
    platform.ok("GET", f"/workspaces/{WORKSPACE}", {"id": WORKSPACE, "name": "me"})
    with pytest.raises(errors.AmbiguousPeerError) as refused:
        client.ask("writer", "hello")
    assert isinstance(refused.value, ValueError)
    for expected in (TREE[1]["id"], "(Lead/writer)", TREE[2]["id"], "(me/writer)"):
        assert expected in str(refused.value)
    with pytest.raises(errors.NotFoundError, match="no peer is called 'nobody'"):
        client.ask("nobody", "hello")


def test_the_original_calls_send_what_they_are_given_and_look_names_up_only_then(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    invalid = answer(400, {"error": "Lead is not a workspace id", "code": "invalid-id"})
    platform.on("POST", "/workspaces/Lead/a2a", invalid)
    platform.on("POST", "/workspaces/Lead/delegate", invalid)
    platform.ok("GET", f"/registry/{WORKSPACE}/peers", TREE)
    platform.ok("POST", f"/workspaces/{TREE[0]['id']}/a2a", {"result": {"id": "t"}})
    platform.ok("POST", f"/workspaces/{TREE[0]['id']}/delegate", {"delegation_id": "d"})
    assert client.call_peer("Lead", "hi", prefer_direct=False) == {"result": {"id": "t"}}
    assert client.delegate("do it", "Lead") == {"delegation_id": "d"}
    paths = [seen.path for seen in platform.seen]
    assert paths == [
        "/workspaces/Lead/a2a",
        f"/registry/{WORKSPACE}/peers",
        f"/workspaces/{TREE[0]['id']}/a2a",
        "/workspaces/Lead/delegate",
        f"/workspaces/{TREE[0]['id']}/delegate",
    ]
