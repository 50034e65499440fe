"""Delegations follow their messages, and their chains can neither close nor grow without end."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import delegation_context, delegation_views, delegations
from molecule_platform.domain.delegation_context import Context, ContextLimits
from molecule_platform.domain.delegations import Delegation, Evidence
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.messages import STATUSES

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage

NOON = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)
CARRIED = "m1"


def made(**changes: Any) -> Delegation:
    facts: dict[str, Any] = {
        "id": "d1",
        "org_id": "o",
        "source": "workspace:a",
        "source_id": "a",
        "target_id": "b",
        "task": "write",
        "body_hash": "h",
        "root_id": "d1",
        "depth": 1,
        "chain": ["a", "b"],
        "deadline_at": NOON,
        "created_at": NOON,
        "updated_at": NOON,
        "message_id": CARRIED,
    }
    return Delegation(**facts | changes)


# Following a message


@pytest.mark.parametrize(
    ("before", "message", "expected"),
    [
        ("pending", {"status": "accepted"}, ("pending", None)),
        ("pending", {"status": "leased"}, ("dispatched", None)),
        ("dispatched", {"status": "accepted"}, ("queued", None)),
        ("dispatched", {"status": "accepted", "attempts": 1}, ("queued", None)),
        ("dispatched", {"status": "answered"}, ("completed", "completed")),
        ("dispatched", {"status": "answered", "task_state": "completed"}, ("completed", "completed")),
        ("dispatched", {"status": "answered", "task_state": "rejected"}, ("failed", "rejected")),
        ("dispatched", {"status": "answered", "task_state": "failed"}, ("failed", "failed")),
        ("dispatched", {"status": "answered", "task_state": "canceled"}, ("failed", "cancelled")),
        ("dispatched", {"status": "answered", "task_state": "input-required"}, ("dispatched", None)),
        ("dispatched", {"status": "answered", "task_state": "auth-required"}, ("dispatched", None)),
        ("queued", {"status": "failed"}, ("failed", "failed")),
        ("queued", {"status": "expired"}, ("failed", "expired")),
        ("queued", {"status": "cancelled"}, ("failed", "cancelled")),
    ],
)
def test_a_delegation_follows_the_message_that_carries_it(
    make_message: MakeMessage, before: str, message: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    assert delegations.followed(made(status=before), make_message(id=CARRIED, **message)) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"status": "leased"}, ("dispatched", None)),
        ({"status": "answered", "task_state": "completed"}, ("completed", "completed")),
        ({"status": "failed"}, ("dispatched", None)),
        ({"status": "expired"}, ("dispatched", None)),
        ({"status": "accepted"}, ("dispatched", None)),
    ],
)
def test_a_later_message_of_the_task_ends_it_only_by_an_answer(
    make_message: MakeMessage, message: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    assert delegations.followed(made(status="dispatched"), make_message(id="m2", **message)) == expected


@given(
    st.sampled_from(sorted(delegations.OPEN)),
    st.sampled_from(STATUSES),
    st.sampled_from([None, "completed", "failed", "canceled", "rejected", "input-required", "working"]),
    st.integers(0, 9),
    st.booleans(),
)
def test_whatever_a_message_does_the_status_is_a_known_one_and_fits_the_outcome(
    make_message: MakeMessage, before: str, status: str, state: str | None, attempts: int, is_carried: bool
) -> None:
    message = make_message(
        id=CARRIED if is_carried else "m2", status=status, task_state=state, attempts=attempts
    )
    after, outcome = delegations.followed(made(status=before), message)
    assert after in delegations.STATUSES
    assert outcome is None or outcome in delegations.OUTCOMES
    assert (after in delegations.OPEN) is (outcome is None)
    assert after == "completed" or outcome != "completed"


# Results


def test_a_result_is_kept_whole(make_message: MakeMessage) -> None:
    task = {
        "kind": "task",
        "id": "t",
        "contextId": "c",
        "status": {
            "state": "completed",
            "message": {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": "x" * 5000}]},
        },
        "artifacts": [{"artifactId": "1", "name": "poem", "parts": [{"kind": "text", "text": "rose"}]}],
    }
    message = make_message(status="answered", result=json.dumps(task).encode())
    result = delegations.result_of(message)
    assert result is not None
    assert "x" * 5000 in result["text"]
    assert result["parts"] == [{"text": "x" * 5000}]
    assert result["artifacts"] == [{"artifactId": "1", "name": "poem", "parts": [{"text": "rose"}]}]


@pytest.mark.parametrize("dialect", ["0.3", "1.0"])
def test_a_bare_message_is_a_result_too(make_message: MakeMessage, dialect: str) -> None:
    answer: dict[str, Any] = {"message": {"role": "ROLE_AGENT", "parts": [{"text": "done"}]}}
    if dialect == "0.3":
        answer = {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": "done"}]}
    message = make_message(status="answered", dialect=dialect, result=json.dumps(answer).encode())
    assert delegations.result_of(message) == {"text": "done", "parts": [{"text": "done"}], "artifacts": []}


NAMES = st.sampled_from(["kind", "task", "message", "status", "parts", "artifacts", "text"])
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
)


@given(ODD)
def test_no_answer_however_odd_keeps_a_delegation_from_ending(make_message: MakeMessage, answer: Any) -> None:
    message = make_message(status="answered", result=json.dumps(answer).encode())
    assert delegations.result_of(message) is not None


# Deliverables


def test_required_deliverables_are_missing_until_somebody_shows_something() -> None:
    asked = [{"name": "poem", "required": True}, {"name": "title", "required": False}]
    assert delegations.missing(asked, []) == ["poem"]
    assert delegations.missing(asked, [Evidence("e", "o", "d1", "poem", "text", "workspace:b", NOON)]) == []


@pytest.mark.parametrize("names", [[""], ["a", "a"], ["x" * 201], [str(number) for number in range(51)]])
def test_deliverables_have_names_of_their_own_and_are_not_too_many(names: list[str]) -> None:
    with pytest.raises(ApiError):
        delegations.check_deliverables([{"name": name, "required": True} for name in names])


# What others see


def test_a_list_shows_a_preview_and_the_whole_shows_all() -> None:
    ended = made(status="completed", outcome="completed", result=delegations.result_text("y" * 1000))
    assert len(delegation_views.list_view(ended)["response_preview"]) == 300
    assert delegation_views.full_view(ended, [])["result"]["text"] == "y" * 1000


def test_an_event_tells_how_it_ended_and_never_what_was_answered() -> None:
    ended = made(status="completed", outcome="completed", result=delegations.result_text("the secret answer"))
    assert "secret answer" not in json.dumps(delegation_views.outcome_view(ended))


# The context

WORKSPACES = st.sampled_from("abcdefghij")


def refused_at(here: Context, target: str, limits: ContextLimits) -> ApiError | None:
    try:
        here.step_to(target, limits)
    except ApiError as refusal:
        return refusal
    return None


@given(st.lists(WORKSPACES, max_size=30), st.integers(1, 9))
def test_no_chain_of_hops_closes_a_circle_or_gets_too_deep(hops: list[str], depth: int) -> None:
    limits = ContextLimits(depth=depth)
    here = delegation_context.first("d1", "a", "b", limits)
    for target in hops:
        refusal = refused_at(here, target, limits)
        too_deep, circle = here.depth >= depth, target in here.chain[:-1]
        assert (refusal is not None) is (too_deep or circle)
        if refusal is not None:
            assert refusal.extras["detail"] == ("depth" if too_deep else "cycle")
            assert refusal.extras["chain"] == list(here.chain)
            continue
        here = here.step_to(target, limits)
        assert here.depth <= depth
        assert len(set(here.chain)) == len(here.chain)
        assert here.chain[-1] == target
    assert here.root == "d1"


def test_a_context_says_which_limit_it_met_and_the_path() -> None:
    limits = ContextLimits(depth=2, calls=3)
    here = delegation_context.first("d1", "a", "b", limits)
    with pytest.raises(ApiError, match="a → b") as refused:
        here.step_to("a", limits)
    assert refused.value.extras["detail"] == "cycle"
    with pytest.raises(ApiError) as refused:
        here.step_to("c", limits).step_to("d", limits)
    assert (refused.value.extras["detail"], refused.value.extras["limit"]) == ("depth", 2)
    with pytest.raises(ApiError) as refused:
        here.counted(4, limits)
    assert (refused.value.extras["detail"], refused.value.extras["limit"]) == ("calls", 3)
    assert here.counted(3, limits).calls_left == 0


def test_people_are_not_part_of_a_chain() -> None:
    assert delegation_context.first("d1", None, "b", ContextLimits()).chain == ("b",)


def test_a_context_reads_as_it_was_written() -> None:
    here = Context("d2", "d1", 3, 60, ("a", "b"))
    assert Context.read(json.loads(json.dumps(here.written()))) == here


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            {
                "statusUpdate": {
                    "status": {"state": "TASK_STATE_WORKING", "message": {"parts": [{"text": "half"}]}}
                }
            },
            {"text": "half"},
        ),
        ({"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}}}, None),
        (
            {
                "statusUpdate": {
                    "status": {"state": "TASK_STATE_COMPLETED", "message": {"parts": [{"text": "all"}]}}
                }
            },
            None,
        ),
        (
            {"artifactUpdate": {"artifact": {"artifactId": "a", "name": "poem", "parts": []}}},
            {"artifact": {"artifact_id": "a", "name": "poem"}},
        ),
        ({"artifactUpdate": {"artifact": {"artifactId": "a", "parts": []}, "append": True}}, None),
        ({"task": {"id": "t"}}, None),
    ],
)
def test_progress_is_what_is_said_on_the_way_and_what_is_begun(
    event: dict[str, Any], told: dict[str, Any] | None
) -> None:
    assert delegation_views.progress(event) == told
