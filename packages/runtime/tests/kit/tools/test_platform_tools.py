"""The built-in tools say what the platform answers, and why it did not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from molecule_runtime.builtin_tools import delegation
from molecule_runtime.coordinator import route_task_to_team
from molecule_runtime.domain.config import DelegationConfig
from molecule_runtime.domain.permissions import NO_PERMISSIONS, RolePermissions
from molecule_runtime.kit.tools.platform_tools import delegate, platform_tools
from molecule_runtime.kit.tools.tool_set import ToolSet
from molecule_runtime.kit.turns import turn_context
from molecule_runtime.testing.memory_platform import MemoryPlatform
from molecule_wire import JSONObject
from molecule_wire.calls.values import CallFailed

OPERATOR = RolePermissions(("operator",))


def tool_set(
    platform: MemoryPlatform, permissions: RolePermissions = OPERATOR, work_dir: Path = Path("/")
) -> ToolSet:
    tools = platform_tools(platform, work_dir=work_dir, retries=DelegationConfig(retry_delay=0.0))
    return ToolSet(tools, permissions=permissions)


@pytest.fixture
def process() -> Iterator[None]:
    yield
    turn_context.set_platform(None)
    turn_context.set_permissions(NO_PERMISSIONS)


def test_the_tools_of_a_platform_are_these() -> None:
    assert [spec.name for spec in tool_set(MemoryPlatform()).specs] == [
        "delegate_to_workspace",
        "check_delegation_status",
        "list_peers",
        "get_workspace_info",
        "send_message_to_user",
        "attach_file",
    ]


class TestDelegation:
    async def test_a_delegation_has_the_id_of_the_platform(self) -> None:
        platform = MemoryPlatform()
        answer = await tool_set(platform).call(
            "delegate_to_workspace", {"workspace_id": "b", "task": "write"}
        )
        assert {name: answer[name] for name in ("success", "task_id", "status")} == {
            "success": True,
            "task_id": "d-1",
            "status": "delegated",
        }
        assert "d-1" in answer["message"]

    async def test_a_key_is_passed_on_and_without_one_each_call_has_its_own(self) -> None:
        platform = MemoryPlatform()
        tools = tool_set(platform)
        for arguments in ({}, {}, {"idempotency_key": "mine"}):
            await tools.call("delegate_to_workspace", {"workspace_id": "b", "task": "x", **arguments})
        first, second, third = platform.keys
        assert first
        assert first != second
        assert third == "mine"

    async def test_without_the_permission_nothing_is_sent(self) -> None:
        platform = MemoryPlatform()
        tools = tool_set(platform, RolePermissions(("read-only",)))
        assert await tools.call("delegate_to_workspace", {"workspace_id": "b", "task": "x"}) == {
            "success": False,
            "error": "RBAC: no 'delegate' permission. Roles: read-only",
        }
        assert platform.delegation_rows == {}

    async def test_a_refusal_of_the_platform_is_told(self) -> None:
        platform = MemoryPlatform(failure=CallFailed(403, "hierarchy-denied", "you may not call b"))
        answer = await tool_set(platform).call("delegate_to_workspace", {"workspace_id": "b", "task": "x"})
        assert answer == {"success": False, "error": "you may not call b"}

    async def test_an_address_that_does_not_answer_is_not_told(self) -> None:
        platform = MemoryPlatform(failure=ConnectionRefusedError("10.0.0.7:8080 refused"))
        answer = await tool_set(platform).call("delegate_to_workspace", {"workspace_id": "b", "task": "x"})
        assert answer["error"] == "the platform cannot be reached; try again later"


class TestDelegationStatus:
    async def test_a_result_comes_whole(self) -> None:
        long = "word " * 10_000
        row = {"delegation_id": "d", "target_id": "b", "status": "completed", "result": {"text": long}}
        answer = await tool_set(MemoryPlatform(delegation_rows={"d": row})).call(  # pyright: ignore[reportArgumentType]
            "check_delegation_status", {"task_id": "d"}
        )
        assert answer == {"task_id": "d", "workspace_id": "b", "status": "completed", "result": long}

    @pytest.mark.parametrize(
        ("status", "word"),
        [
            ("pending", "pending"),
            ("dispatched", "in_progress"),
            ("queued", "queued"),
            ("completed", "completed"),
        ],
    )
    async def test_a_status_has_the_word_of_the_contract(self, status: str, word: str) -> None:
        platform = MemoryPlatform(delegation_rows={"d": {"delegation_id": "d", "status": status}})
        assert (await tool_set(platform).call("check_delegation_status", {"task_id": "d"}))["status"] == word

    async def test_a_failure_says_why_and_never_none(self) -> None:
        rows = {
            "with": {
                "delegation_id": "with",
                "status": "failed",
                "error": {"code": "x", "message": "no disk"},
            },
            "without": {"delegation_id": "without", "status": "failed", "outcome": "expired", "error": None},
        }
        tools = tool_set(MemoryPlatform(delegation_rows=rows))  # pyright: ignore[reportArgumentType]
        errors = [(await tools.call("check_delegation_status", {"task_id": one}))["error"] for one in rows]
        assert errors == ["no disk", "the delegation ended as expired"]

    async def test_without_an_id_all_are_listed(self) -> None:
        platform = MemoryPlatform()
        tools = tool_set(platform)
        await tools.call("delegate_to_workspace", {"workspace_id": "b", "task": "one"})
        await tools.call("delegate_to_workspace", {"workspace_id": "c", "task": "two"})
        assert await tools.call("check_delegation_status") == {
            "delegations": [
                {"task_id": "d-2", "workspace_id": "c", "status": "in_progress"},
                {"task_id": "d-1", "workspace_id": "b", "status": "in_progress"},
            ],
            "count": 2,
        }

    async def test_an_unknown_id_is_an_error(self) -> None:
        answer = await tool_set(MemoryPlatform()).call("check_delegation_status", {"task_id": "x"})
        assert answer == {"error": "no delegation 'x' of this workspace"}


class TestTexts:
    async def test_peers_are_lines(self) -> None:
        platform = MemoryPlatform(
            peer_rows=[{"id": "b", "name": "Writer\n- forged", "status": "online", "role": "w"}]
        )
        assert (
            await tool_set(platform).call("list_peers")
            == "- Writer - forged (ID: b, status: online, role: w)"
        )

    async def test_without_peers_a_sentence_says_so(self) -> None:
        answer = await tool_set(MemoryPlatform()).call("list_peers")
        assert answer == "No peers available (this workspace may be isolated)"

    async def test_the_own_workspace_is_json(self) -> None:
        answer = await tool_set(MemoryPlatform()).call("get_workspace_info")
        assert answer == '{\n  "id": "ws-self",\n  "name": "Self"\n}'

    async def test_the_user_is_told(self) -> None:
        platform = MemoryPlatform()
        assert (
            await tool_set(platform).call("send_message_to_user", {"message": "hi"}) == "Message sent to user"
        )
        assert platform.notifications == ["hi"]

    async def test_a_failure_is_a_text_that_begins_with_error(self) -> None:
        tools = tool_set(MemoryPlatform(failure=TimeoutError()))
        for name, args in (
            ("list_peers", {}),
            ("get_workspace_info", {}),
            ("send_message_to_user", {"message": "x"}),
        ):
            answer = await tools.call(name, args)  # pyright: ignore[reportArgumentType]
            assert answer == "Error: the platform cannot be reached; try again later"


class TestAttaching:
    async def test_a_file_goes_to_the_turn_that_runs(self, tmp_path: Path) -> None:
        (tmp_path / "report.txt").write_text("x")
        taken: list[str | Path] = []

        class Taker:
            def attach(self, path: str | Path) -> None:
                taken.append(path)

        turn_context.set_turn(Taker(), "m1")
        answer = await tool_set(MemoryPlatform(), work_dir=tmp_path).call(
            "attach_file", {"path": "report.txt"}
        )
        assert answer == {"success": True, "path": str(tmp_path / "report.txt")}
        assert taken == [tmp_path / "report.txt"]

    async def test_outside_of_a_turn_nothing_is_attached(self, tmp_path: Path) -> None:
        (tmp_path / "report.txt").write_text("x")
        answer = await tool_set(MemoryPlatform(), work_dir=tmp_path).call(
            "attach_file", {"path": "report.txt"}
        )
        assert answer["success"] is False
        assert "no turn is running" in answer["error"]


@pytest.mark.usefixtures("process")
class TestProcessWideTools:
    async def test_without_a_platform_they_say_so(self) -> None:
        answer = await delegation.delegate_to_workspace.ainvoke({"workspace_id": "b", "task": "x"})
        assert answer["success"] is False

    async def test_before_permissions_are_set_nothing_is_allowed(self) -> None:
        turn_context.set_platform(MemoryPlatform())
        answer = await delegation.delegate_to_workspace.ainvoke({"workspace_id": "b", "task": "x"})
        assert answer == {"success": False, "error": "RBAC: no 'delegate' permission. Roles: none"}

    async def test_they_work_on_the_platform_of_the_process(self) -> None:
        turn_context.set_platform(
            MemoryPlatform(peer_rows=[{"id": "c", "name": "C", "parent_id": "ws-self"}])
        )
        turn_context.set_permissions(OPERATOR)
        answer = await delegation.delegate_to_workspace(workspace_id="b", task="x")
        status = await delegation.check_delegation_status.ainvoke({"task_id": answer["task_id"]})
        assert status["status"] == "in_progress"
        routed = await route_task_to_team.ainvoke({"task": "x", "preferred_member_id": "c"})
        assert routed["task_id"] == "d-2"


class Flaky(MemoryPlatform):
    """Refuses so many delegations before it takes one."""

    def __init__(self, *problems: Exception) -> None:
        super().__init__()
        self.problems = list(problems)
        self.tried: list[str] = []

    async def delegate(self, target_id: str, task: str, idempotency_key: str) -> JSONObject:
        self.tried.append(idempotency_key)
        if self.problems:
            raise self.problems.pop(0)
        return await super().delegate(target_id, task, idempotency_key)


RETRIES = DelegationConfig(retry_attempts=3, retry_delay=0.0, timeout=5.0)


async def test_a_platform_in_trouble_is_asked_again_with_the_same_key() -> None:
    platform = Flaky(OSError("away"), CallFailed(503, "draining", "later"))
    assert (await delegate(platform, "w", "task", retries=RETRIES))["success"] is True
    assert len(platform.tried) == 3
    assert len(set(platform.tried)) == 1


@pytest.mark.parametrize(
    ("problems", "tries"),
    [([CallFailed(403, "forbidden", "no")], 1), ([OSError("away")] * 5, 3)],
)
async def test_a_refusal_is_final_and_attempts_are_bounded(problems: list[Exception], tries: int) -> None:
    platform = Flaky(*problems)
    assert (await delegate(platform, "w", "task", retries=RETRIES))["success"] is False
    assert len(platform.tried) == tries
