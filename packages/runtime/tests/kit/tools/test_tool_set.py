"""A tool call is permitted, decided, checked and limited; it never raises and never tells internals."""

import asyncio
from typing import Any, Literal

import pytest

from molecule_runtime.domain.permissions import NO_PERMISSIONS, RolePermissions
from molecule_runtime.kit.tools.tool_set import ToolSet, ToolSpec, tool
from molecule_wire import JSON, JSONObject

OPERATOR = RolePermissions(("operator",))


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(permission="delegate", name="guarded")
async def _guarded() -> str:
    return "done"


@tool(timeout=0.01)
async def slow() -> None:
    await asyncio.sleep(10)


@tool
def blocking(text: str) -> str:
    """Say it."""
    return text.upper()


@tool
async def broken() -> None:
    raise ConnectionError("postgres://user:password@host")


@tool
async def times_out_itself() -> None:
    raise TimeoutError("inner")


def tool_set(*specs: ToolSpec, permissions: RolePermissions = OPERATOR) -> ToolSet:
    return ToolSet(specs, permissions=permissions)


def test_a_signature_becomes_a_schema() -> None:
    def every(
        text: str,
        count: int,
        ratio: float,
        flag: bool,
        names: list[str],
        extra: dict[str, Any],
        mode: Literal["a", "b"] = "a",
        maybe: str | None = None,
        anything: object = None,
    ) -> None: ...

    assert tool(every).input_schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "flag": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
            "extra": {"type": "object"},
            "mode": {"enum": ["a", "b"], "default": "a"},
            "maybe": {"type": ["string", "null"]},
            "anything": {},
        },
        "required": ["text", "count", "ratio", "flag", "names", "extra"],
        "additionalProperties": False,
    }


def test_an_annotation_that_cannot_be_evaluated_leaves_the_type_open() -> None:
    def odd(value: "NoSuchName") -> None: ...  # type: ignore[name-defined] # noqa: F821 # pyright: ignore

    properties = tool(odd).input_schema["properties"]  # pyright: ignore[reportUnknownArgumentType]
    assert properties == {"value": {}}


async def test_a_tool_is_described_by_its_function_and_called_by_name() -> None:
    tools = tool_set(add, blocking)
    assert [(spec.name, spec.description) for spec in tools.specs] == [
        ("add", "Add two numbers."),
        ("blocking", "Say it."),
    ]
    assert await tools.call("add", {"a": 2}) == 3
    assert await tools.call("blocking", {"text": "x"}) == "X"
    assert await add.ainvoke({"a": 1, "b": 1}) == 2
    assert await add(1, b=4) == 5


async def test_an_unknown_tool_is_an_error() -> None:
    assert await tool_set().call("nope", {}) == {"error": "Unknown tool: nope"}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({}, "add: missing argument 'a'"),
        ({"a": "1"}, "add: argument 'a' must be an integer"),
        ({"a": True}, "add: argument 'a' must be an integer"),
        ({"a": 1, "c": 2}, "add: unknown argument 'c'; known: a, b"),
    ],
)
async def test_wrong_arguments_are_an_error_that_names_them(args: dict[str, JSON], problem: str) -> None:
    assert await tool_set(add).call("add", args) == {"error": problem}


@pytest.mark.parametrize("args", [[1], "a", 3])
async def test_arguments_that_are_no_object_are_an_error(args: Any) -> None:
    assert await tool_set(add).call("add", args) == {"error": "add: the arguments must be an object"}


async def test_a_missing_permission_is_refused_before_anything_else() -> None:
    calls: list[str] = []

    async def decide(spec: ToolSpec, arguments: JSONObject) -> str:
        calls.append(spec.name)
        return ""

    tools = ToolSet([_guarded], permissions=NO_PERMISSIONS, before_call=decide)
    assert await tools.call("guarded", {"wrong": 1}) == {
        "success": False,
        "error": "RBAC: no 'delegate' permission. Roles: none",
    }
    assert calls == []


async def test_the_decision_before_a_call_can_refuse_it() -> None:
    async def decide(spec: ToolSpec, arguments: JSONObject) -> str:
        return "too many calls" if spec.name == "add" else ""

    tools = ToolSet([add, _guarded], permissions=OPERATOR, before_call=decide)
    assert await tools.call("add", {"a": 1}) == {"error": "too many calls"}
    assert await tools.call("guarded") == "done"


async def test_a_tool_that_takes_too_long_is_an_error() -> None:
    assert await tool_set(slow).call("slow") == {"error": "tool 'slow' timed out after 0.01s"}


async def test_a_failure_tells_its_class_and_nothing_more() -> None:
    assert await tool_set(broken).call("broken") == {
        "error": "tool 'broken' failed (ConnectionError) — see workspace logs for details."
    }
    answer = await tool_set(times_out_itself).call("times_out_itself")
    assert answer == {
        "error": "tool 'times_out_itself' failed (TimeoutError) — see workspace logs for details."
    }


async def test_a_cancelled_call_is_cancelled() -> None:
    spec = ToolSpec("long", "", {}, slow.handler, timeout=30)
    task = asyncio.create_task(tool_set(spec).call("long"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_of_two_tools_with_one_name_the_first_stays() -> None:
    other = ToolSpec("add", "another", {}, slow.handler)
    assert tool_set(add, other).specs == [add]
