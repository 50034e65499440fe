"""The life of a workspace: the tables of statuses, triggers and heartbeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import lifecycle, workspaces
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.lifecycle import HeartbeatReport
from tests.rows import each_row

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeWorkspace

NOW = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)
MANAGED = {"capabilities": {"status_mgmt": True}}


@pytest.mark.parametrize("status", workspaces.STATUSES)
def test_registering_brings_online_but_never_undoes_an_operator_s_decision(
    make_workspace: MakeWorkspace, status: str
) -> None:
    kept = status in ("paused", "hibernating", "hibernated", "removed")
    assert lifecycle.after_register(make_workspace(status=status)) == (status if kept else "online")


@each_row(
    ("before", "beat", "after"),
    [
        ("awaiting_agent", HeartbeatReport(), "online"),
        ("provisioning", HeartbeatReport(), "online"),
        ("offline", HeartbeatReport(), "online"),
        ("failed", HeartbeatReport(), "online"),
        ("awaiting_agent", HeartbeatReport(runtime_state="starting"), "awaiting_agent"),
        ("awaiting_agent", HeartbeatReport(error_rate=1.0), "online"),
        ("online", HeartbeatReport(error_rate=0.49), "online"),
        ("online", HeartbeatReport(error_rate=0.5), "degraded"),
        ("online", HeartbeatReport(runtime_state="wedged"), "degraded"),
        ("online", HeartbeatReport(runtime_state="degraded"), "degraded"),
        ("online", HeartbeatReport(runtime_state="auth_lost"), "degraded"),
        ("online", HeartbeatReport(runtime_state="stopping", error_rate=1.0), "online"),
        ("degraded", HeartbeatReport(error_rate=0.1), "degraded"),
        ("degraded", HeartbeatReport(error_rate=0.09), "online"),
        ("degraded", HeartbeatReport(error_rate=0.09, runtime_state="ok"), "online"),
        ("degraded", HeartbeatReport(error_rate=0.09, runtime_state="warming"), "degraded"),
        ("degraded", HeartbeatReport(runtime_state="starting"), "degraded"),
        ("online", HeartbeatReport(error_rate=1.0, runtime_metadata=MANAGED), "online"),
        ("degraded", HeartbeatReport(error_rate=1.0, runtime_metadata=MANAGED), "online"),
        ("online", HeartbeatReport(runtime_state="wedged", runtime_metadata=MANAGED), "degraded"),
        (
            "online",
            HeartbeatReport(error_rate=1.0, runtime_metadata={"capabilities": {"status_mgmt": "yes"}}),
            "degraded",
        ),
    ],
)
def test_a_heartbeat_moves_the_status_as_the_table_says(
    make_workspace: MakeWorkspace, before: str, beat: HeartbeatReport, after: str
) -> None:
    assert lifecycle.after_beat(make_workspace(status=before), beat) == after


beats = st.builds(
    HeartbeatReport,
    error_rate=st.floats(-10, 10),
    sample_error=st.text(max_size=10),
    active_tasks=st.integers(-5, 2**40),
    uptime_seconds=st.integers(-5, 2**40),
    current_task=st.text(max_size=10),
    monthly_spend=st.integers(-5, 10**15),
    runtime_state=st.sampled_from(["", "ok", "wedged", "starting", "else"]),
    runtime_metadata=st.none() | st.dictionaries(st.sampled_from(["capabilities", "x"]), st.integers()),
)


@given(beats, st.sampled_from(workspaces.STATUSES))
def test_no_heartbeat_ever_moves_what_an_operator_set_or_leads_anywhere_unknown(
    make_workspace: MakeWorkspace, beat: HeartbeatReport, status: str
) -> None:
    after = lifecycle.after_beat(make_workspace(status=status), beat)
    assert after in (status, "online", "degraded")
    if status in ("paused", "hibernating", "hibernated", "removed"):
        assert after == status


@given(beats)
def test_every_number_of_a_report_ends_inside_its_bounds(beat: HeartbeatReport) -> None:
    clamped = beat.clamped()
    assert 0 <= clamped.error_rate <= 1
    assert 0 <= clamped.active_tasks < 2**31
    assert 0 <= clamped.uptime_seconds < 2**31
    assert 0 <= clamped.monthly_spend <= 10**12
    assert clamped.clamped() == clamped


def test_long_texts_of_a_report_are_cut() -> None:
    clamped = HeartbeatReport(sample_error="e" * 5000, current_task="t" * 5000).clamped()
    assert (len(clamped.sample_error), len(clamped.current_task)) == (4000, 1000)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        (600, 600),
        (0, None),
        (-1, None),
        (None, None),
        ("600", None),
        (1.5, None),
        (True, None),
        (10**6, 86_400),
    ],
)
def test_an_idle_timeout_is_a_positive_whole_number_or_none(asked: Any, kept: int | None) -> None:
    assert (
        lifecycle.idle_timeout_of(HeartbeatReport(runtime_metadata={"idle_timeout_seconds": asked})) == kept
    )


def test_a_report_without_metadata_clears_what_an_earlier_one_declared(make_workspace: MakeWorkspace) -> None:
    said = make_workspace(capabilities={"session": True}, idle_timeout_seconds=60, runtime_metadata={"a": 1})
    after = lifecycle.beaten(said, HeartbeatReport(), NOW, 90)
    assert (after.capabilities, after.idle_timeout_seconds, after.runtime_metadata) == (None, None, None)


def test_metadata_replaces_capabilities_idle_timeout_and_the_wish_to_restart(
    make_workspace: MakeWorkspace,
) -> None:
    block = {"capabilities": {"session": True}, "idle_timeout_seconds": 60, "restart_required": True}
    after = lifecycle.beaten(make_workspace(), HeartbeatReport(runtime_metadata=block), NOW, 90)
    assert after.capabilities == {"session": True}
    assert (after.idle_timeout_seconds, after.needs_restart) == (60, True)
    assert after.runtime_metadata == block


@pytest.mark.parametrize(
    ("external", "capabilities", "seconds"),
    [
        (True, None, 90),
        (False, None, 180),
        (True, {"heartbeat": True}, 300),
        (False, {"heartbeat": True}, 300),
    ],
)
def test_liveness_is_set_from_the_beat_not_extended(
    make_workspace: MakeWorkspace, external: bool, capabilities: dict[str, bool] | None, seconds: int
) -> None:
    far = make_workspace(external=external, liveness_expires_at=NOW + timedelta(days=1))
    after = lifecycle.beaten(far, HeartbeatReport(runtime_metadata={"capabilities": capabilities}), NOW, 90)
    assert after.liveness_expires_at == NOW + timedelta(seconds=seconds)


def test_a_beat_claims_once_counts_the_version_and_reports_no_spend_as_no_news(
    make_workspace: MakeWorkspace,
) -> None:
    first = lifecycle.beaten(make_workspace(monthly_spend=7), HeartbeatReport(), NOW, 90)
    later = lifecycle.beaten(first, HeartbeatReport(monthly_spend=9), NOW + timedelta(seconds=5), 90)
    assert (first.claimed_at, later.claimed_at) == (NOW, NOW)
    assert (first.monthly_spend, later.monthly_spend) == (7, 9)
    assert (first.version, later.version) == (2, 3)


# The table of the contract, written once more by hand.
CONTRACT = """
provisioning                                              | register beat     | online
awaiting_agent offline failed                             | register beat     | online
online degraded                                           | register          | online
provisioning                                              | start-failed      | failed
online                                                    | sick              | degraded
degraded                                                  | well              | online
online degraded                                           | silence           | offline
provisioning online degraded offline failed               | restart           | provisioning
provisioning online degraded offline hibernating          | pause             | paused
hibernated awaiting_agent failed                          | pause             | paused
paused                                                    | resume-external   | awaiting_agent
paused                                                    | resume-provisioned| provisioning
online degraded                                           | hibernate         | hibernating
hibernating                                               | asleep            | hibernated
hibernating                                               | stop-failed       | online
hibernated                                                | wake              | provisioning
provisioning online degraded offline paused hibernating   | delete            | removed
hibernated awaiting_agent failed                          | delete            | removed
"""


def allowed_moves() -> dict[tuple[str, str], str]:
    moves: dict[tuple[str, str], str] = {}
    for line in CONTRACT.strip().splitlines():
        before, triggers, after = (part.split() for part in line.split("|"))
        moves |= {(status, trigger): after[0] for status in before for trigger in triggers}
    return moves


MOVES = allowed_moves()


@given(st.sampled_from(workspaces.STATUSES), st.sampled_from(sorted(lifecycle.STEPS)))
def test_a_trigger_leads_where_the_contract_says_and_nowhere_else(
    make_workspace: MakeWorkspace, status: str, trigger: str
) -> None:
    before = make_workspace(status=status)
    if (status, trigger) in MOVES:
        after = lifecycle.stepped(before, trigger, NOW)
        assert (after.status, after.version) == (MOVES[status, trigger], before.version + 1)
        return
    with pytest.raises(ApiError) as refused:
        lifecycle.stepped(before, trigger, NOW)
    assert refused.value.code == "state-conflict"


@given(st.lists(st.sampled_from(sorted(lifecycle.STEPS)), max_size=30))
def test_no_walk_through_the_table_comes_back_from_removal(
    make_workspace: MakeWorkspace, triggers: list[str]
) -> None:
    workspace, gone = make_workspace(status="provisioning"), False
    for trigger in triggers:
        if lifecycle.may(workspace, trigger):
            workspace = lifecycle.stepped(workspace, trigger, NOW)
            assert not gone
            gone = workspace.removed


def test_a_start_begins_unclaimed_and_with_nothing_of_the_process_before(
    make_workspace: MakeWorkspace,
) -> None:
    before = make_workspace(
        status="online",
        external=False,
        provisioning_since=NOW,
        provision_attempts=3,
        active_tasks=2,
        current_task="x",
        liveness_expires_at=NOW,
    )
    after = lifecycle.stepped(before, "restart", NOW)
    assert (after.provisioning_since, after.provision_attempts, after.liveness_expires_at) == (None, 0, None)
    assert (after.active_tasks, after.current_task, after.last_activity_at) == (0, "", NOW)


@pytest.mark.parametrize("trigger", ["pause", "delete"])
@pytest.mark.parametrize("external", [True, False])
def test_what_may_not_run_any_more_is_to_be_stopped_if_we_started_it(
    make_workspace: MakeWorkspace, trigger: str, external: bool
) -> None:
    before = make_workspace(status="online", external=external, start_epoch=3)
    assert lifecycle.stepped(before, trigger, NOW).stop_through == (None if external else 3)


@pytest.mark.parametrize(
    ("fields", "at_work", "wanted"),
    [
        ({"provisioning_since": NOW}, True, True),
        ({"provisioning_since": NOW, "start_epoch": 4}, False, False),
        ({"provisioning_since": None}, False, False),
        ({"provisioning_since": NOW, "status": "online"}, False, True),
        ({"provisioning_since": NOW, "status": "online", "start_epoch": 4}, False, False),
        ({"provisioning_since": NOW, "status": "paused"}, False, False),
        ({"provisioning_since": NOW, "status": "failed"}, False, False),
    ],
)
def test_a_start_counts_while_no_newer_one_was_taken_on_and_nobody_took_it_back(
    make_workspace: MakeWorkspace, fields: dict[str, Any], at_work: bool, wanted: bool
) -> None:
    workspace = make_workspace(**{"status": "provisioning", "external": False, "start_epoch": 3, **fields})
    assert lifecycle.is_at_work(workspace, 3) is at_work
    assert lifecycle.is_wanted(workspace, 3) is wanted


def test_the_words_of_an_old_process_do_not_bring_a_workspace_online_that_is_to_be_started(
    make_workspace: MakeWorkspace,
) -> None:
    waiting = make_workspace(status="provisioning", external=False)
    assert lifecycle.after_beat(waiting, HeartbeatReport()) == "provisioning"
    assert lifecycle.after_register(waiting) == "provisioning"
    taken_on = make_workspace(status="provisioning", external=False, provisioning_since=NOW)
    assert lifecycle.after_beat(taken_on, HeartbeatReport()) == lifecycle.after_register(taken_on) == "online"


@pytest.mark.parametrize(
    ("fields", "idle"),
    [
        ({}, True),
        ({"status": "degraded"}, True),
        ({"status": "offline"}, False),
        ({"external": True}, False),
        ({"active_tasks": 1}, False),
        ({"last_activity_at": NOW - timedelta(minutes=9)}, False),
        ({"last_outbound_at": NOW - timedelta(minutes=9)}, False),
        ({"last_heartbeat_at": NOW}, True),
        ({"hibernation_idle_minutes": 0}, False),
        ({"hibernation_idle_minutes": 30}, False),
        ({"last_activity_at": None}, True),
    ],
)
def test_idle_is_who_was_asked_for_nothing_for_long_enough_heartbeats_apart(
    make_workspace: MakeWorkspace, fields: dict[str, Any], idle: bool
) -> None:
    quiet: dict[str, Any] = {
        "status": "online",
        "external": False,
        "created_at": NOW - timedelta(days=1),
        "last_activity_at": NOW - timedelta(minutes=10),
    }
    assert lifecycle.is_idle(make_workspace(**(quiet | fields)), NOW, 10) is idle


@pytest.mark.parametrize(
    ("runtime", "asked", "seconds"), [("llm", 600, 600), ("hermes", 600, 1800), ("hermes", 3600, 3600)]
)
def test_slow_runtimes_have_longer_to_start(
    make_workspace: MakeWorkspace, runtime: str, asked: int, seconds: int
) -> None:
    assert lifecycle.provision_seconds(make_workspace(runtime=runtime), asked) == seconds
