"""Whether a message can be carried to an agent now, and how many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import dispatch
from molecule_platform.domain.errors import ApiError

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeWorkspace

URL = "http://agent/a2a"


@pytest.mark.parametrize(
    ("mode", "url", "status", "able"),
    [
        ("push", URL, "online", True),
        ("push", URL, "degraded", True),
        ("push", "", "online", False),
        ("poll", URL, "online", False),
        ("push", URL, "awaiting_agent", False),
    ],
)
def test_only_a_living_agent_with_an_address_is_called(
    make_workspace: MakeWorkspace, mode: str, url: str, status: str, able: bool
) -> None:
    assert dispatch.is_dispatchable(make_workspace(delivery_mode=mode, url=url, status=status)) is able


@pytest.mark.parametrize(
    ("most", "leased", "reported", "free"),
    [(1, 0, 0, 1), (1, 1, 0, 0), (3, 1, 2, 1), (3, 2, 1, 1), (1, 5, 5, 0)],
)
def test_the_leases_and_the_reported_work_may_be_the_same_work(
    make_workspace: MakeWorkspace, most: int, leased: int, reported: int, free: int
) -> None:
    ada = make_workspace(max_concurrent_tasks=most, active_tasks=reported)
    assert dispatch.capacity(ada, leased) == free


def test_an_agent_with_its_own_sessions_has_room_for_everything(make_workspace: MakeWorkspace) -> None:
    assert dispatch.capacity(make_workspace(capabilities={"session": True}), 500) == 1000
    assert dispatch.capacity(make_workspace(capabilities={"session": "yes"}), 500) == 0


@pytest.mark.parametrize(
    ("changes", "waiting", "code", "seconds"),
    [
        ({"status": "paused"}, 0, "peer-unavailable", 30),
        ({"status": "hibernated"}, 0, "peer-waking", 15),
        ({"status": "online", "delivery_mode": "push", "url": URL}, 16, "peer-busy", 30),
        ({"status": "online", "delivery_mode": "push", "url": URL}, 15, None, 0),
        ({"status": "online"}, 9, None, 0),
    ],
)
def test_a_sender_who_would_not_wait_is_told_at_once(
    make_workspace: MakeWorkspace, changes: dict[str, Any], waiting: int, code: str | None, seconds: int
) -> None:
    ada = make_workspace(**changes)
    if code is None:
        dispatch.refuse_to_wait(ada, waiting)
        return
    with pytest.raises(ApiError) as refused:
        dispatch.refuse_to_wait(ada, waiting)
    assert (refused.value.code, refused.value.extras["retry_after"]) == (code, seconds)


@pytest.mark.parametrize("reason", [None, "asked"])
def test_whoever_is_refused_by_an_agent_that_starts_again_is_told_that_it_does(
    make_workspace: MakeWorkspace, reason: str | None
) -> None:
    with pytest.raises(ApiError) as refused:
        dispatch.refuse_to_wait(make_workspace(status="provisioning", restart_reason=reason), 0)
    assert refused.value.extras.get("restarting", False) is (reason is not None)
