"""Field rules and rows of a workspace."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import workspaces
from molecule_platform.domain.errors import ApiError

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeWorkspace

URL = "http://agent/a2a"
ROW = (
    "id,name,role,tier,status,url,parent_id,org_id,agent_card,active_tasks,max_concurrent_tasks,last_error_rate,"
    "last_sample_error,uptime_seconds,current_task,runtime,external,delivery_mode,visibility,isolated,"
    "workspace_dir,workspace_access,budget_limit,monthly_spend,last_heartbeat_at,last_outbound_at,"
    "last_activity_at,status_reason,capabilities,pending,x,y,collapsed,created_at,updated_at"
)


@given(st.text(max_size=12))
def test_a_name_is_bounded_on_one_line_and_free_of_template_characters(name: str) -> None:
    bad = len(name) > 8 or any(c in "{}[]|>*&!" or ord(c) < 32 or ord(c) == 127 for c in name)
    if not bad:
        assert workspaces.check_label("name", name, 8) == name
        return
    with pytest.raises(ApiError) as refused:
        workspaces.check_label("name", name, 8)
    assert refused.value.code == "invalid-request"
    assert refused.value.extras["field"] == "name"


def test_a_choice_is_one_of_its_list_and_the_refusal_lists_it() -> None:
    assert workspaces.check_choice("visibility", "public", workspaces.VISIBILITIES) == "public"
    with pytest.raises(ApiError, match="visibility is one of private, public"):
        workspaces.check_choice("visibility", "secret", workspaces.VISIBILITIES)


def test_the_full_row_has_the_members_of_the_contract_and_tells_of_the_card_s_signature(
    make_workspace: MakeWorkspace,
) -> None:
    assert sorted(workspaces.full_row(make_workspace(), 3)) == sorted([*ROW.split(","), "card_signature"])


def test_a_peer_is_not_told_about_money_work_errors_or_addresses(make_workspace: MakeWorkspace) -> None:
    row = workspaces.peer_row(make_workspace(url="http://10.0.0.1"), 0)
    hidden = {"budget_limit", "monthly_spend", "current_task", "last_sample_error", "workspace_dir", "url"}
    assert set(ROW.split(",")) - set(row) == hidden


@pytest.mark.parametrize(
    ("members", "limit"),
    [
        ({"url": URL}, 16),
        ({}, 1),
        ({"external": False, "url": URL}, 1),
        ({"url": URL, "max_concurrent_tasks": 1}, 1),
        ({"url": URL, "runtime_metadata": {"max_concurrent_turns": 4}}, 4),
        ({"external": False, "url": URL, "runtime_metadata": {"max_concurrent_turns": 4}}, 4),
        ({"url": URL, "runtime_metadata": {"max_concurrent_turns": 4}, "max_concurrent_tasks": 2}, 2),
        ({"url": URL, "runtime_metadata": {"max_concurrent_turns": 10**9}}, 1000),
        ({"url": URL, "runtime_metadata": {"max_concurrent_turns": True}}, 16),
        ({"url": URL, "runtime_metadata": {"max_concurrent_turns": 0}}, 16),
        ({"url": URL, "runtime_metadata": {"max_concurrent_turns": "9"}}, 16),
    ],
)
def test_the_operators_number_comes_first_then_the_agents_own_then_the_default_of_its_kind(
    make_workspace: MakeWorkspace, members: dict[str, Any], limit: int
) -> None:
    workspace = make_workspace(**members)
    assert workspace.concurrent_tasks == limit
    assert workspaces.full_row(workspace, 0)["max_concurrent_tasks"] == limit


def test_times_of_a_row_are_written_for_the_wire(make_workspace: MakeWorkspace) -> None:
    beat = datetime(2026, 5, 2, 10, 15, 30, 123_000, tzinfo=UTC)
    assert workspaces.full_row(make_workspace(last_heartbeat_at=beat), 0)["last_heartbeat_at"] == (
        "2026-05-02T10:15:30.123Z"
    )


def test_a_changed_copy_counts_one_version_up_and_leaves_the_original(make_workspace: MakeWorkspace) -> None:
    before = make_workspace()
    after = before.changed(status="removed")
    assert (before.version, after.version) == (1, 2)
    assert (before.removed, after.removed) == (False, True)
    assert after.as_member().removed


@pytest.mark.parametrize(
    ("folder", "roots", "accepted"),
    [
        ("/srv/ada", (), True),
        ("/srv/ada/", ("/srv",), True),
        ("/srv", ("/srv",), True),
        ("/usrlocal", (), True),
        ("srv/ada", (), False),
        ("/srv/../etc", (), False),
        ("/", (), False),
        ("//etc", (), False),
        ("/etc", (), False),
        ("/usr/share", (), False),
        ("/opt/ada", ("/srv", "/data"), False),
        ("/srvice", ("/srv",), False),
        ("/srv/a\nb", (), False),
    ],
)
def test_a_folder_is_absolute_not_of_the_system_and_inside_the_roots(
    folder: str, roots: tuple[str, ...], accepted: bool
) -> None:
    if accepted:
        assert workspaces.check_folder("workspace_dir", folder, roots) == folder
        return
    with pytest.raises(ApiError) as refused:
        workspaces.check_folder("workspace_dir", folder, roots)
    assert refused.value.extras["field"] == "workspace_dir"
