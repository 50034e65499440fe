"""Who an event is for, and how it looks on the wire."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import events
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import Event, Transition
from molecule_platform.domain.principals import WORKSPACE_SCOPES, Principal
from molecule_platform.services.events.event_feed import FeedSubscriber

AT = datetime(2026, 5, 2, 12, 0, 0, 123000, tzinfo=UTC)
WORKSPACES = ("ada", "bob", "carol")
TYPES = (
    "WORKSPACE_ONLINE",
    "TASK_UPDATED",
    "AGENT_MESSAGE",
    "A2A_RESPONSE",
    "ACTIVITY_LOGGED",
    "DELEGATION_SENT",
    "APPROVAL_DECIDED",
    "MESSAGE_ANSWERED",
)
some_events = st.builds(
    Event,
    st.sampled_from(TYPES),
    st.sampled_from(("org-one", "org-two")),
    st.sampled_from(WORKSPACES),
    st.just({}),
    st.just(AT),
    st.none() | st.integers(1, 9),
    st.none() | st.lists(st.sampled_from(WORKSPACES)),
)


@given(some_events, st.sampled_from(WORKSPACES))
def test_nobody_sees_another_organisation_or_what_passed_between_others(event: Event, mine: str) -> None:
    listener = FeedSubscriber(Principal(f"workspace:{mine}", "org-one", WORKSPACE_SCOPES, mine))
    party = mine == event.workspace_id or mine in (event.parties or ())
    private = event.parties is not None or not event.event_type.startswith(("WORKSPACE_", "TASK_"))
    assert listener.wants(event) == (event.org_id == "org-one" and (party or not private))


@given(some_events)
def test_people_and_the_administrator_see_all_of_the_organisation_they_are_in(event: Event) -> None:
    person = FeedSubscriber(Principal("user:ann", "org-one", frozenset({"org.read"}), "ann"))
    admin = FeedSubscriber(Principal("user:admin", "org-one", frozenset({"admin"}), "admin"))
    assert person.wants(event) == admin.wants(event) == (event.org_id == "org-one")


@given(some_events)
def test_an_event_reaches_another_replica_as_it_was_shown(event: Event) -> None:
    arrived = Event.from_line(event.as_line())
    for name in ("event_type", "org_id", "workspace_id", "payload", "created_at", "parties"):
        assert getattr(arrived, name) == getattr(event, name)


def test_a_frame_and_the_stream_of_one_workspace_tell_the_same_event() -> None:
    event = Event("WORKSPACE_ONLINE", "o", "w", {"url": "u"}, AT, 7)
    assert event.frame() == {
        "id": "7",
        "event": "WORKSPACE_ONLINE",
        "workspace_id": "w",
        "timestamp": "2026-05-02T12:00:00.123Z",
        "payload": {"url": "u"},
    }
    told = {"type": "WORKSPACE_ONLINE", "timestamp": 1777723200123, "data": {"url": "u"}, "id": "7"}
    assert event.told() == told
    assert "id" not in Event("TASK_UPDATED", "o", "w", {}, AT).told()


def test_a_decision_is_repeated_beside_the_payload() -> None:
    payload = {"approval_id": "a", "status": "approved", "decision": "yes", "decided_by": "user:ann", "x": 1}
    frame = Event("APPROVAL_DECIDED", "o", "w", payload, AT, 7).frame()
    assert {name: frame[name] for name in ("approval_id", "status", "decision", "decided_by")} == {
        name: value for name, value in payload.items() if name != "x"
    }
    assert "x" not in frame


@pytest.mark.parametrize(
    ("caller", "parties"), [("workspace:bob", ("ada", "bob")), ("user:bob", ("ada",)), ("system:x", ("ada",))]
)
def test_a_message_is_between_its_target_and_the_workspace_that_sent_it(
    caller: str, parties: tuple[str, ...]
) -> None:
    step = Transition(1, "o", "m", "ada", caller, "accepted", 0, 0, AT).as_event()
    assert step is not None
    assert step.parties == parties


@pytest.mark.parametrize("given_id", ["", "x", "-1", "1" * 19, "²", "1.0"])
def test_what_is_no_id_of_an_event_is_refused(given_id: str) -> None:
    with pytest.raises(ApiError, match="since is the id"):
        events.parse_id(given_id)
