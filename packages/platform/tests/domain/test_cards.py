"""Cards for the gateway: every way leads through it, in both versions, and nothing says what it cannot do."""

import copy
import json
from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import cards
from molecule_platform.domain.cards import Form
from molecule_wire import jcs
from molecule_wire.a2a.cards import Interface

URL = "https://platform.example/agents/11111111-1111-4111-8111-111111111111"
MODERN: dict[str, Any] = {
    "name": "Reader",
    "description": "Reads",
    "version": "3.1",
    "supportedInterfaces": [
        {"url": "agent.internal:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        {"url": "https://agent.internal/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
    ],
    "capabilities": {
        "streaming": False,
        "extensions": [{"uri": "https://e.example/x", "required": True, "params": {"n": 1.0, "é": "ü"}}],
    },
    "provider": {"organization": "Readers", "url": "https://readers.example"},
    "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X"}}},
    "securityRequirements": [{"schemes": {"key": {"list": []}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "r", "name": "Read", "description": "Reads", "tags": ["text"]}],
    "signatures": [{"protected": "old", "signature": "old"}],
}
OLD: dict[str, Any] = {
    "name": "Writer",
    "description": "Writes",
    "version": "1",
    "protocolVersion": "0.3.0",
    "url": "https://agent.internal/a2a",
    "preferredTransport": "JSONRPC",
    "capabilities": {"streaming": True, "stateTransitionHistory": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [],
    "security": [{"own": []}],
    "securitySchemes": {"own": {"type": "http", "scheme": "basic"}},
}
EVERY: list[dict[str, Any]] = [MODERN, OLD, {"name": "Plain"}, {}]
FORMS: tuple[Form, ...] = ("merged", "1.0", "0.3")


def rewritten(card: dict[str, Any], *, push: bool = True) -> Any:
    return cards.rewritten(card, "Ada", URL, push=push)


def ways(card: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (one["protocolBinding"], one["protocolVersion"]) for one in rewritten(card)["supportedInterfaces"]
    ]


@pytest.mark.parametrize("card", EVERY)
@pytest.mark.parametrize("form", FORMS)
def test_the_agent_s_own_address_security_and_signatures_are_gone(card: dict[str, Any], form: Form) -> None:
    text = json.dumps(cards.in_form(rewritten(card), form))
    assert "agent.internal" not in text
    assert "GRPC" not in text
    assert "signatures" not in text
    assert "apiKey" not in text
    assert "basic" not in text


def test_the_ways_are_the_agent_s_in_their_order_and_then_those_the_gateway_adds() -> None:
    assert ways(MODERN) == [
        ("HTTP+JSON", "1.0"),
        ("JSONRPC", "1.0"),
        ("JSONRPC", "0.3"),
        ("HTTP+JSON", "0.3"),
    ]
    assert ways(OLD)[0] == ("JSONRPC", "0.3")
    assert ways({})[0] == ("JSONRPC", "1.0")
    assert {one["url"] for one in rewritten(MODERN)["supportedInterfaces"]} == {URL}


def test_a_tenant_stays_with_its_way_and_goes_with_the_ways_that_are_added() -> None:
    own = [Interface("JSONRPC", "1.0", "a"), Interface("JSONRPC", "1.0", "b")]
    assert cards.offered(own) == [
        *own,
        Interface("HTTP+JSON", "1.0", "a"),
        Interface("JSONRPC", "0.3"),
        Interface("HTTP+JSON", "0.3"),
    ]


@given(
    st.lists(
        st.builds(
            Interface,
            st.sampled_from(["JSONRPC", "HTTP+JSON", "GRPC", "other"]),
            st.sampled_from(["1.0", "0.3"]),
            st.sampled_from(["", "t"]),
        )
    )
)
def test_both_bindings_are_offered_in_both_versions_once_each(own: list[Interface]) -> None:
    offered = cards.offered(own)
    assert {(way.binding, way.version) for way in offered} == {
        (binding, version) for binding in ("JSONRPC", "HTTP+JSON") for version in ("1.0", "0.3")
    }
    assert len(offered) == len(set(offered))
    kept = [way for way in offered if way in own]
    assert kept == [way for way in dict.fromkeys(own) if way in offered][: len(kept)]


def test_the_gateway_says_what_it_can_carry() -> None:
    card = rewritten(MODERN)
    assert card["capabilities"] == {
        "extensions": [
            {"uri": "https://e.example/x", "params": {"n": 1.0, "é": "ü"}, "required": True},
        ],
        "streaming": True,
        "pushNotifications": True,
        "extendedAgentCard": True,
    }
    assert rewritten(MODERN, push=False)["capabilities"]["pushNotifications"] is False
    assert list(card["securitySchemes"]) == ["molecule"]
    assert list(card["securityRequirements"][0]["schemes"]) == ["molecule"]


def test_the_form_of_0_3_has_its_own_members_and_none_of_1_0() -> None:
    card = cards.in_form(rewritten(OLD), "0.3")
    assert card["url"] == URL
    assert (card["preferredTransport"], card["protocolVersion"]) == ("JSONRPC", "0.3.0")
    assert card["additionalInterfaces"] == [
        {"url": URL, "transport": "JSONRPC"},
        {"url": URL, "transport": "HTTP+JSON"},
    ]
    assert card["supportsAuthenticatedExtendedCard"] is True
    assert not {"supportedInterfaces", "securityRequirements"} & set(card)


@pytest.mark.parametrize("card", EVERY)
def test_the_official_parser_reads_every_form(card: dict[str, Any]) -> None:
    pure: Any = rewritten(card)
    strict = ParseDict(copy.deepcopy(pure), parse_agent_card({}))
    assert MessageToDict(strict) == pure
    for form in ("1.0", "merged"):
        read = parse_agent_card(copy.deepcopy(cards.in_form(pure, form)))
        assert jcs.canonical(MessageToDict(read)) == jcs.canonical(pure), form
    old = parse_agent_card(copy.deepcopy(cards.in_form(pure, "0.3")))
    assert {one.url for one in old.supported_interfaces} == {URL}
    assert old.security_schemes["molecule"].http_auth_security_scheme.scheme == "Bearer"


@pytest.mark.parametrize("card", EVERY)
def test_old_readers_find_the_scheme_they_know_in_the_merged_form(card: dict[str, Any]) -> None:
    from a2a.compat.v0_3.types import AgentCard

    merged, old = (cards.in_form(rewritten(card), form) for form in ("merged", "0.3"))
    assert AgentCard.model_validate(merged) == AgentCard.model_validate(old)
