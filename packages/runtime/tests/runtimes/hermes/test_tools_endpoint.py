"""The tools of a workspace for hermes: with the token alone, and only those that need no turn."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from molecule_runtime.domain.permissions import RolePermissions
from molecule_runtime.kit.tools.platform_tools import platform_tools
from molecule_runtime.kit.tools.tool_set import ToolSet
from molecule_runtime.runtimes.hermes.tools_endpoint import OFFERED, ToolsEndpoint
from molecule_runtime.testing.memory_platform import MemoryPlatform


@pytest.fixture
async def client() -> AsyncGenerator[httpx.AsyncClient]:
    tools = ToolSet(platform_tools(MemoryPlatform()), permissions=RolePermissions(("operator",)))
    endpoint = ToolsEndpoint(tools, "t-1")
    url = await endpoint.listen()
    headers = {"Authorization": "Bearer t-1"}
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
        yield client
    await endpoint.stop()
    await endpoint.stop()


async def test_the_tools_that_need_no_turn_are_listed_with_their_schemas(client: httpx.AsyncClient) -> None:
    listed: list[dict[str, Any]] = (await client.get("/tools")).json()
    assert {tool["name"] for tool in listed} == set(OFFERED)
    assert all(tool["description"] and tool["input_schema"]["type"] == "object" for tool in listed)


async def test_a_call_goes_to_the_platform(client: httpx.AsyncClient) -> None:
    body = {"workspace_id": "w", "task": "count"}
    answer = await client.post("/tools/delegate_to_workspace", json=body)
    assert (answer.status_code, answer.json()["success"], answer.json()["task_id"]) == (200, True, "d-1")


@pytest.mark.parametrize("token", ["", "Bearer", "Bearer t-2", "t-2"])
async def test_without_the_token_nothing_is_told(client: httpx.AsyncClient, token: str) -> None:
    for method, path in (("GET", "/tools"), ("POST", "/tools/list_peers"), ("GET", "/")):
        answer = await client.request(method, path, headers={"Authorization": token})
        assert (answer.status_code, answer.json()) == (401, {"error": "unauthorized"})


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/tools/attach_file", b"{}", 404),
        ("POST", "/tools/nothing", b"{}", 404),
        ("GET", "/tools/list_peers", b"", 404),
        ("POST", "/tools/list_peers", b"[", 400),
        ("POST", "/tools/list_peers", b"x" * (8 * 1024 * 1024 + 1), 413),
    ],
)
async def test_what_is_not_offered_or_not_read_is_refused(
    client: httpx.AsyncClient, method: str, path: str, body: bytes, status: int
) -> None:
    answer = await client.request(method, path, content=body)
    assert (answer.status_code, "error" in answer.json()) == (status, True)
