"""Who asked whom: every message names the one it was sent for, and the tree of them can be read."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import pytest

from molecule_agent import A2AError, ApiError, Fail, InboundMessage, InboxDelivery, RemoteAgentClient
from molecule_agent.handlers import MessageHandler
from tests.spec.platforms import Platform
from tests.spec.scripted_agent import Body, ScriptedAgent, echo, join_push

pytestmark = [pytest.mark.both_engines, pytest.mark.usefixtures("prompt_retries")]


@contextmanager
def serving(
    agent: RemoteAgentClient, handler: MessageHandler, delivery: InboxDelivery | None = None
) -> Generator[None]:
    """The agent answers from its inbox in a thread."""
    delivery, stopped = delivery or InboxDelivery(agent, wait=0.5), threading.Event()

    def loop() -> None:
        while not stopped.is_set():
            delivery.run_once(handler)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        delivery.stop()
        thread.join(10)


def passing_on(peer: RemoteAgentClient) -> Callable[[InboundMessage, RemoteAgentClient], str]:
    def ask(message: InboundMessage, client: RemoteAgentClient) -> str:
        try:
            return f"asked: {client.ask_peer(peer.workspace_id, message.text)}"
        except (A2AError, ApiError) as refused:
            raise Fail(f"{peer.workspace_id} refused") from refused

    return ask


def echo_text(message: InboundMessage, client: RemoteAgentClient) -> str:
    return f"re: {message.text}"


def sent(platform: Platform, agent: RemoteAgentClient, text: str = "go") -> str:
    receipt = platform.send(agent.workspace_id, text, headers={"Prefer": "respond-async"})
    return receipt.json()["message_id"]


def send_async(platform: Platform, sender: RemoteAgentClient, target: RemoteAgentClient, text: str) -> str:
    message = {"role": "user", "messageId": str(uuid4()), "parts": [{"kind": "text", "text": text}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    path, headers = f"/workspaces/{target.workspace_id}/a2a", {"Prefer": "respond-async"}
    return platform.call("POST", path, sender.load_token(), json=request, headers=headers).json()[
        "message_id"
    ]


def tree(platform: Platform, message_id: str, token: str | None = None, query: str = "") -> dict[str, Any]:
    return platform.ok("GET", f"/messages/{message_id}/tree{query}", token)


def finished(platform: Platform, message_id: str) -> dict[str, Any]:
    message = platform.ok("GET", f"/messages/{message_id}?wait=30")
    assert message["finished_at"] is not None, message
    return message


def by_target(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["target_name"]: row for row in found["messages"]}


def test_in_a_chain_of_five_agents_every_hop_wait_retry_and_refusal_is_told(platform: Platform) -> None:
    names = ("first", "second", "third", "fourth", "fifth")
    agents = [platform.join(name) for name in names]
    tries: list[int] = []

    def fails_once(message: InboundMessage, client: RemoteAgentClient) -> str:
        assert message.lease is not None
        tries.append(message.lease.attempt)
        if len(tries) == 1:
            raise RuntimeError("not yet")
        return passing_on(agents[4])(message, client)

    def refuses(message: InboundMessage, client: RemoteAgentClient) -> str:
        raise Fail("there is no such customer")

    handlers = [*(passing_on(peer) for peer in agents[1:4]), fails_once, refuses]
    with ExitStack() as running:
        for agent, handler in zip(agents, handlers, strict=True):
            running.enter_context(serving(agent, handler))
        first = sent(platform, agents[0])
        finished(platform, first)
    found = tree(platform, first)
    rows = by_target(found)
    assert (found["root"], found["truncated"]) == (first, False)
    assert [row["target_name"] for row in found["messages"]][:4] == list(names[:4]), "parents come first"
    for above, below in zip(names[:4], names[1:], strict=True):
        assert rows[below]["parent_message_id"] == rows[above]["id"]
        assert rows[below]["caller_name"] == above
        assert rows[above]["worked_ms"] >= rows[below]["waited_ms"]
    assert (tries, rows["fourth"]["attempts"]) == ([1, 2], 2)
    assert rows["fifth"]["status"] == "failed"
    assert rows["fifth"]["error"]["message"] == "there is no such customer"
    assert tree(platform, rows["fifth"]["id"])["root"] == first, "the same tree from any of its messages"


def test_a_delegation_names_the_message_for_which_it_was_made(platform: Platform) -> None:
    lead, worker = platform.join("lead"), platform.join("worker")

    def hand_over(message: InboundMessage, client: RemoteAgentClient) -> str:
        return str(client.delegate("the work", worker.workspace_id)["delegation_id"])

    with serving(lead, hand_over), serving(worker, lambda message, client: "done"):
        first = sent(platform, lead)
        delegation_id = finished(platform, first)["result"]["status"]["message"]["parts"][0]["text"]
        platform.ok("GET", f"/delegations/{delegation_id}?wait=20", timeout=30)
    row = by_target(tree(platform, first))["worker"]
    assert (row["kind"], row["delegation_id"], row["parent_message_id"]) == (
        "delegation",
        delegation_id,
        first,
    )


def test_a_push_agent_that_names_nothing_sends_for_the_only_message_it_has(
    platform: Platform, agent: ScriptedAgent
) -> None:
    pushed, peer = join_push(platform, agent), platform.join("peer")
    received: list[str] = []

    def ask(body: Body) -> Body:
        received.append(send_async(platform, pushed, peer, "x"))
        return echo(body)

    agent.respond = ask
    first = sent(platform, pushed)
    finished(platform, first)
    assert platform.ok("GET", f"/messages/{received[0]}")["parent_message_id"] == first


def test_a_message_of_somebody_else_cannot_be_named_as_the_parent(platform: Platform) -> None:
    a, b, c = (platform.join(name) for name in "abc")
    foreign = sent(platform, c)
    a.call_peer(b.workspace_id, "hi", False, metadata={"parent_message_id": foreign})
    [message] = platform.ok("GET", f"/workspaces/{b.workspace_id}/messages")["messages"]
    assert message["parent_message_id"] is None


def test_a_workspace_sees_what_it_sent_and_got_and_nothing_else_of_the_tree(platform: Platform) -> None:
    a, b, c = (platform.join(name) for name in "abc")
    with serving(a, passing_on(b)), serving(b, passing_on(c)), serving(c, lambda message, client: "end"):
        first = sent(platform, a)
        finished(platform, first)
    everything = by_target(tree(platform, first))
    assert set(everything) == {"a", "b", "c"}
    seen = tree(platform, everything["c"]["id"], c.load_token())
    assert (list(by_target(seen)), seen["root"]) == (["c"], everything["c"]["id"])
    assert set(by_target(tree(platform, everything["b"]["id"], b.load_token()))) == {"b", "c"}
    assert platform.call("GET", f"/messages/{first}/tree", c.load_token()).status_code == 404


def test_a_large_tree_is_cut_and_says_so(platform: Platform) -> None:
    lead, peer = platform.join("lead"), platform.join("peer")

    def ask_often(message: InboundMessage, client: RemoteAgentClient) -> str:
        for number in range(5):
            client.call_peer(peer.workspace_id, f"number {number}", False)
        return "asked"

    with serving(lead, ask_often), serving(peer, lambda message, client: "yes"):
        first = sent(platform, lead)
        finished(platform, first)
    cut, whole = tree(platform, first, query="?limit=3"), tree(platform, first)
    assert (len(cut["messages"]), cut["truncated"]) == (3, True)
    assert (len(whole["messages"]), whole["truncated"]) == (6, False)


def test_messages_that_the_reader_may_not_see_take_no_room_in_the_tree(platform: Platform) -> None:
    b, c, d = (platform.join(name) for name in "bcd")

    def ask_others_then_back(message: InboundMessage, client: RemoteAgentClient) -> str:
        for target in (d, d, d, d, d, b):
            send_async(platform, client, target, "back")
        return "asked"

    def pass_on_once(message: InboundMessage, client: RemoteAgentClient) -> str:
        return "end" if message.text == "back" else passing_on(c)(message, client)

    with serving(b, pass_on_once), serving(c, ask_others_then_back):
        first = sent(platform, b)
        finished(platform, first)
    seen = tree(platform, first, b.load_token(), "?limit=3")
    assert [row["target_name"] for row in seen["messages"]] == ["b", "c", "b"]
    assert seen["truncated"] is False
    assert tree(platform, first, b.load_token(), "?limit=2")["truncated"] is True


def ask_together(peer: RemoteAgentClient) -> MessageHandler:
    """A handler that asks only when two messages are in hand: the platform alone cannot tell them apart."""
    both = threading.Barrier(2, timeout=20)

    async def ask(message: InboundMessage, client: RemoteAgentClient) -> str:
        await asyncio.to_thread(both.wait)
        return await asyncio.to_thread(client.ask_peer, peer.workspace_id, message.text)

    return ask


def check_each_has_its_own(platform: Platform, messages: dict[str, str]) -> None:
    for text, message_id in messages.items():
        finished(platform, message_id)
        below = by_target(tree(platform, message_id))["peer"]
        assert below["parent_message_id"] == message_id
        answered = platform.ok("GET", f"/messages/{below['id']}")
        assert f"re: {text}" in str(answered["result"])


def test_two_messages_in_hand_at_once_each_have_what_was_sent_for_them(platform: Platform) -> None:
    agent, peer = platform.join("agent"), platform.join("peer")
    messages = {text: sent(platform, agent, text) for text in ("red", "blue")}
    delivery = InboxDelivery(agent, wait=0.5, concurrency=2)
    with serving(agent, ask_together(peer), delivery), serving(peer, echo_text):
        check_each_has_its_own(platform, messages)


def test_a_served_agent_with_two_messages_in_hand_names_the_right_one(platform: Platform) -> None:
    agent, peer = platform.join("agent"), platform.join("peer")
    server = agent.start_a2a_server(ask_together(peer), host="127.0.0.1", max_concurrency=4)
    try:
        agent.register()
        messages = {text: sent(platform, agent, text) for text in ("red", "blue")}
        with serving(peer, echo_text):
            check_each_has_its_own(platform, messages)
    finally:
        server.stop()
