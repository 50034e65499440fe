"""A workspace with children knows its team and gives it tasks."""

import pytest

from molecule_runtime.domain.permissions import RolePermissions
from molecule_runtime.kit.setup.coordinator import (
    build_children_description,
    get_children,
    get_parent_context,
    route_tool,
)
from molecule_runtime.kit.tools.tool_set import ToolSet
from molecule_runtime.testing.memory_platform import MemoryPlatform
from molecule_wire import JSONObject

WRITER: JSONObject = {
    "id": "w",
    "name": "Writer",
    "status": "online",
    "parent_id": "ws-self",
    "agent_card": {"skills": [{"id": "write", "name": "write"}]},
}
READER: JSONObject = {**WRITER, "id": "r", "name": "Reader", "agent_card": {"skills": [{"id": "read"}]}}
STRANGER: JSONObject = {"id": "s", "name": "Stranger", "status": "online", "parent_id": "elsewhere"}


def tools(platform: MemoryPlatform) -> ToolSet:
    return ToolSet([route_tool(platform, [WRITER])], permissions=RolePermissions(("operator",)))


async def test_children_are_the_peers_whose_parent_is_the_workspace() -> None:
    platform = MemoryPlatform(peer_rows=[WRITER, STRANGER])
    assert await get_children(platform) == [WRITER]


async def test_without_an_answer_there_are_no_children_and_no_context(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PARENT_ID", "p")
    platform = MemoryPlatform(failure=ConnectionError("secret address"))
    assert await get_children(platform) == []
    assert await get_parent_context(platform) == []
    assert len(caplog.messages) == 2
    assert "secret" not in caplog.text


async def test_the_context_is_that_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = MemoryPlatform(shared={"p": [{"path": "a.md", "content": "x"}]})
    monkeypatch.delenv("PARENT_ID", raising=False)
    assert await get_parent_context(platform) == []
    monkeypatch.setenv("PARENT_ID", "p")
    assert await get_parent_context(platform) == [{"path": "a.md", "content": "x"}]


def test_the_description_names_id_status_and_skills_as_data() -> None:
    described = build_children_description([WRITER])
    assert described.startswith("## Your Team (sub-workspaces you coordinate)\n")
    fenced = described.split("```")[1]
    assert "- **Writer** (id: `w`, status: online)\n  Skills: write" in fenced
    assert "delegate first" in described.split("```")[2]


def test_without_children_there_is_nothing_to_describe() -> None:
    assert build_children_description([]) == ""


async def test_a_task_for_a_preferred_member_is_delegated() -> None:
    platform = MemoryPlatform(peer_rows=[WRITER, READER])
    answer = await tools(platform).call("route_task_to_team", {"task": "x", "preferred_member_id": "r"})
    assert (answer["success"], answer["task_id"]) == (True, "d-1")
    assert platform.delegation_rows["d-1"]["target_id"] == "r"


async def test_a_task_goes_by_itself_only_when_one_member_is_the_best() -> None:
    platform = MemoryPlatform(peer_rows=[WRITER, READER])
    chosen = await tools(platform).call("route_task_to_team", {"task": "write it", "auto": True})
    unclear = await tools(platform).call("route_task_to_team", {"task": "sing", "auto": True})
    reply = await tools(platform).call("route_task_to_team", {"task": "write it"})
    assert (chosen["member_id"], chosen["task_id"]) == ("w", "d-1")
    assert (unclear["action"], reply["action"]) == ("choose_member", "choose_member")
    assert len(platform.delegation_rows) == 1


async def test_a_stranger_gets_no_task() -> None:
    platform = MemoryPlatform(peer_rows=[WRITER, STRANGER])
    answer = await tools(platform).call("route_task_to_team", {"task": "x", "preferred_member_id": "s"})
    assert answer["error"] == "'s' is not a member of this team"
    assert platform.delegation_rows == {}


async def test_without_an_answer_the_team_of_the_start_is_used() -> None:
    answer = await tools(MemoryPlatform(failure=OSError())).call("route_task_to_team", {"task": "x"})
    assert [one["id"] for one in answer["members"]] == ["w"]
