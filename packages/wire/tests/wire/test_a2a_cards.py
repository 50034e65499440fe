"""Whatever an agent registers as its card can be read, and what is read has nothing empty or unknown."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import jcs
from molecule_wire.a2a import cards
from molecule_wire.a2a.cards import Interface

MEMBERS = {
    "name",
    "description",
    "version",
    "provider",
    "documentationUrl",
    "iconUrl",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
}
NAMES = st.sampled_from(
    [
        *sorted(MEMBERS),
        "supportedInterfaces",
        "extensions",
        "params",
        "uri",
        "id",
        "tags",
        "url",
        "organization",
        "x",
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)
CARDS = st.dictionaries(NAMES, VALUES, max_size=8)


def has_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return not value or any(has_empty(one) for one in cast(dict[str, Any], value).values())
    if isinstance(value, list):
        return not value or any(has_empty(one) for one in cast(list[Any], value))
    return value is None or value == ""


@given(CARDS)
def test_any_object_becomes_a_card_that_can_be_signed(given_card: dict[str, Any]) -> None:
    card = cards.read(given_card, "Ada")
    assert set(card) <= MEMBERS
    assert {"name", "description", "version", "defaultInputModes", "defaultOutputModes", "skills"} <= set(
        card
    )
    assert not has_empty(card)
    assert jcs.canonical(card)


@given(CARDS)
def test_reading_a_card_twice_changes_nothing(given_card: dict[str, Any]) -> None:
    once = cards.read(given_card, "Ada")
    assert cards.read(once, "Bob") == once


@given(CARDS)
def test_the_ways_of_any_object_are_known_versions(given_card: dict[str, Any]) -> None:
    assert {way.version for way in cards.interfaces(given_card)} <= {"1.0", "0.3"}


def test_a_name_is_enough() -> None:
    assert cards.read({"name": "docs-bot"}, "Ada") == {
        "name": "docs-bot",
        "description": "docs-bot",
        "version": "1.0.0",
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "chat", "name": "Chat", "description": "Talk to docs-bot", "tags": ["chat"]}],
    }


def test_not_even_a_name_is_needed() -> None:
    assert cards.read({}, "Ada")["name"] == "Ada"


def test_what_the_protocol_knows_is_kept_and_the_rest_is_not() -> None:
    skill = {
        "id": "s",
        "name": "S",
        "description": "d",
        "tags": ["t"],
        "examples": ["e"],
        "inputModes": ["a/b"],
    }
    given_card: dict[str, Any] = {
        "name": "n",
        "description": "d",
        "version": "2",
        "provider": {"organization": "o", "url": "https://o.example", "phone": "1"},
        "documentationUrl": "https://docs.example",
        "iconUrl": "",
        "defaultOutputModes": ["image/png", ""],
        "skills": [{**skill, "security": [{"own": []}], "price": 1}],
        "securitySchemes": {"own": {"type": "apiKey"}},
        "signatures": [{"protected": "x", "signature": "y"}],
        "anything": 1,
    }
    assert cards.read(given_card, "Ada") == {
        "name": "n",
        "description": "d",
        "version": "2",
        "provider": {"organization": "o", "url": "https://o.example"},
        "documentationUrl": "https://docs.example",
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["image/png"],
        "skills": [skill],
    }


@pytest.mark.parametrize(
    ("given_skill", "skill"),
    [
        ("search", {"id": "search", "name": "search", "description": "search", "tags": ["search"]}),
        ({"id": "s"}, {"id": "s", "name": "s", "description": "s", "tags": ["s"]}),
        ({"name": "S", "tags": []}, {"id": "S", "name": "S", "description": "S", "tags": ["S"]}),
    ],
)
def test_a_sloppy_skill_is_completed(given_skill: Any, skill: dict[str, Any]) -> None:
    assert cards.read({"skills": [given_skill, 7, {}, None]}, "Ada")["skills"] == [skill]


def test_extensions_are_kept_with_their_params_and_only_what_is_required_says_so() -> None:
    declared: list[Any] = [
        {"uri": "u:1", "required": True, "params": {"a": [1, "", None, {}], "b": {}, "c": False}},
        {"uri": "u:2", "required": False, "description": "d", "params": {}},
        {"description": "without a name"},
    ]
    card: dict[str, Any] = {"capabilities": {"streaming": False, "extensions": declared}}
    read = cards.read(card, "Ada")
    assert read["capabilities"] == {
        "extensions": [
            {"uri": "u:1", "params": {"a": [1], "c": False}, "required": True},
            {"uri": "u:2", "description": "d"},
        ]
    }
    assert cards.extension_uris(card) == ["u:1", "u:2"]
    assert cards.extension_uris(card, required=True) == ["u:1"]


@pytest.mark.parametrize(
    ("number", "kept"), [(2**53 - 1, 2**53 - 1), (2**60, float(2**60)), (10**400, None), (1.5, 1.5)]
)
def test_numbers_become_what_every_reader_takes_them_for(number: Any, kept: Any) -> None:
    assert cards.without_empty({"n": number}) == (None if kept is None else {"n": kept})


def test_what_lies_too_deep_is_left_out() -> None:
    deep: Any = "end"
    for _ in range(10_000):
        deep = {"a": deep}
    assert cards.without_empty(deep) is None
    assert cards.without_empty({"a": deep, "b": 1}) == {"b": 1}


def test_the_ways_of_1_0_keep_order_and_tenant() -> None:
    card: dict[str, Any] = {
        "supportedInterfaces": [
            {"url": "grpc:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "x", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0.3", "tenant": "t"},
            {"url": "x", "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0"},
            {"url": "x", "protocolBinding": "JSONRPC", "protocolVersion": "2.0"},
            {"url": "x", "protocolBinding": "JSONRPC"},
            "nonsense",
        ],
        "url": "ignored",
    }
    assert cards.interfaces(card) == [
        Interface("GRPC", "1.0"),
        Interface("HTTP+JSON", "1.0", "t"),
        Interface("JSONRPC", "0.3"),
        Interface("JSONRPC", "1.0"),
    ]


def test_the_ways_of_0_3_begin_with_the_preferred_one() -> None:
    card: dict[str, Any] = {
        "url": "x",
        "preferredTransport": "HTTP+JSON",
        "protocolVersion": "0.3.0",
        "additionalInterfaces": [{"url": "x", "transport": "JSONRPC"}, {"transport": "HTTP+JSON"}],
    }
    assert cards.interfaces(card) == [Interface("HTTP+JSON", "0.3"), Interface("JSONRPC", "0.3")]
    assert cards.interfaces({"url": "x"}) == [Interface("JSONRPC", "0.3")]
    assert cards.interfaces({}) == []
