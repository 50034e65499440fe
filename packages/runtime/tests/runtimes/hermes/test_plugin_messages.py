"""What the plugin takes: bodies, addresses for replies, and the order of a chat."""

from typing import Any

import pytest

from molecule_runtime.runtimes.hermes.plugin.messages import (
    BadRequest,
    Chats,
    InboundMessage,
    check_callback,
    parse_hosts,
    parse_message,
    parse_object,
)

GOOD: dict[str, Any] = {
    "chat_id": "c",
    "content": "hi",
    "message_id": "m",
    "callback_url": "http://127.0.0.1:8646/a2a/reply",
}


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/a",
        "http://127.9.9.9/a",
        "http://localhost:1/a",
        "http://[::1]:1/a",
        "http://runtime/a",
        "http://far:99/a",
    ],
)
def test_addresses_on_this_host_and_allowed_ones(url: str) -> None:
    check_callback(url, parse_hosts("runtime, FAR:99"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/a2a/reply",
        "https://127.0.0.1/a",
        "http://10.0.0.1/a",
        "http://example.org/a",
        "http://127.0.0.1@example.org/a",
        "http://user@127.0.0.1/a",
        "http://localhost.example.org/a",
        "http://far:98/a",
        "http://[::1/a",
        "http://127.0.0.1:99999/a",
        "file:///etc/passwd",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(BadRequest, match="callback_url"):
        check_callback(url, parse_hosts("runtime far:99"))


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"{", b"\xff", b"[" * 100_000])
def test_a_body_must_be_an_object(data: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_object(data)


@pytest.mark.parametrize("name", ["chat_id", "content", "message_id", "callback_url"])
@pytest.mark.parametrize("value", [None, 1, ["x"], "", " "])
def test_required_fields_are_texts(name: str, value: Any) -> None:
    with pytest.raises(BadRequest, match=name):
        parse_message({**GOOD, name: value}, frozenset())


def test_the_sender_is_the_chat_unless_it_is_named() -> None:
    assert parse_message(GOOD, frozenset()).peer_id == "c"
    named = parse_message({**GOOD, "peer_id": "workspace:1", "peer_name": "One"}, frozenset())
    assert (named.peer_id, named.peer_name) == ("workspace:1", "One")
    with pytest.raises(BadRequest, match="peer_name"):
        parse_message({**GOOD, "peer_name": 1}, frozenset())


def _message(number: int, chat_id: str = "c") -> InboundMessage:
    return InboundMessage(chat_id, "text", f"m{number}", GOOD["callback_url"], "p", "P")


def test_a_chat_is_a_queue_and_an_id_is_taken_once() -> None:
    chats = Chats()
    assert [chats.accept(_message(number)) for number in (1, 2, 1)] == [True, True, False]
    assert [message.message_id for message in chats.chat("c").waiting] == ["m1", "m2"]
    chats.chat("c").in_hand = chats.chat("c").waiting.popleft()
    held = chats.in_hand("c")
    assert held is not None
    assert held.message_id == "m1"
    assert chats.in_hand("other") is None
    assert chats.find("m1") == (chats.chat("c"), held)
    assert chats.find("m9") is None
    assert len(chats.unanswered()) == 2
    chats.forget("c")
    assert not chats.accept(_message(2)), "the id is remembered after its chat"
