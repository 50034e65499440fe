"""The members of a card that 1.0 knows: those of the official package, and what it makes of any card."""

import json
import logging
from typing import Any

import pytest
from a2a.types import AgentCard
from a2a.utils import signing
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import jcs
from molecule_wire.a2a import card_members
from molecule_wire.a2a.card_members import CARD, Each, Leaf, Members

# Of these the card's author says what is in them.
FREE = ("google.protobuf.Struct",)


def of_protocol(message: Any) -> dict[str, Any]:
    """The members of a message of the official package, as the table writes them."""
    found: dict[str, Any] = {}
    for field in message.fields:
        inner: Any = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            inner = inner.fields_by_name["value"].message_type
        if inner is None or inner.full_name in FREE:
            implicit = field.type == field.TYPE_BOOL and not field.has_presence
            found[field.json_name] = Leaf.FALSE_BY_DEFAULT if implicit else Leaf.PLAIN
        else:
            found[field.json_name] = Each(of_protocol(inner)) if field.is_repeated else of_protocol(inner)
    return found


def test_the_table_is_that_of_the_protocol() -> None:
    theirs = of_protocol(AgentCard.DESCRIPTOR)
    del theirs["signatures"]
    assert theirs == CARD


_texts = st.text(max_size=3)
_free = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1e9, 1e9) | _texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=5,
)
_TEXT_LISTS = {
    "list",
    "tags",
    "examples",
    "inputModes",
    "outputModes",
    "defaultInputModes",
    "defaultOutputModes",
}
# A scheme is of one kind, and has one flow.
_ALTERNATIVES = {"mtlsSecurityScheme", "deviceCode"}
_FLAGS = {"streaming", "pushNotifications", "extendedAgentCard"}


def _leaf(name: str, shape: Leaf) -> st.SearchStrategy[Any]:
    if shape is Leaf.FALSE_BY_DEFAULT or name in _FLAGS:
        return st.booleans()
    if name == "params":
        return st.dictionaries(_texts, _free, max_size=2)
    if name == "scopes":
        return st.dictionaries(_texts, _texts, max_size=2)
    return st.lists(_texts, max_size=2) if name in _TEXT_LISTS else _texts


def _objects(members: Members) -> st.SearchStrategy[dict[str, Any]]:
    known = {name: _member(name, shape) for name, shape in members.items()}
    some = st.fixed_dictionaries({}, optional=known)
    if not _ALTERNATIVES.isdisjoint(members):
        some = st.sampled_from(sorted(known)).flatmap(lambda name: st.fixed_dictionaries({name: known[name]}))
    return st.tuples(_unknown, some).map(lambda both: {**both[0], **both[1]})


_unknown = st.dictionaries(st.sampled_from(["type", "x-own", "preferredTransport"]), _free, max_size=1)


def _member(name: str, shape: Any) -> st.SearchStrategy[Any]:
    if isinstance(shape, Leaf):
        return _leaf(name, shape)
    if not isinstance(shape, Each):
        return _objects(shape)
    inner = st.deferred(lambda: _objects(shape.shape))
    if name in ("securitySchemes", "schemes"):
        return st.dictionaries(_texts, inner, max_size=2)
    return st.lists(inner, max_size=2)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """The official package tells of every member that a card lacks."""
    caplog.set_level(logging.ERROR, "a2a")


@given(_objects(CARD))
def test_what_is_left_of_a_card_is_what_the_official_package_signs(card: dict[str, Any]) -> None:
    read = ParseDict(card, AgentCard(), ignore_unknown_fields=True)
    theirs: Any = json.loads(signing._canonicalize_agent_card(read))  # pyright: ignore[reportPrivateUsage]
    assert jcs.canonical(card_members.known(card)) == jcs.canonical(theirs or {})


@given(st.recursive(_free, lambda inner: st.dictionaries(st.sampled_from(sorted(CARD)), inner, max_size=4)))
def test_whatever_a_card_holds_it_is_read(anything: Any) -> None:
    card_members.known({"skills": anything, "securitySchemes": anything, "capabilities": anything})
