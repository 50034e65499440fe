"""Arguments are coerced and refused with their places; results are checked strictly."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, Field

from molecule_skill import (
    A2AAgent,
    LocalRunContext,
    NoAuth,
    RunContext,
    SkillInputError,
    SkillOutputError,
    skill,
)
from molecule_skill.engine import find_skill


class Point(BaseModel):
    x: int
    y: int = 0


class Other(BaseModel):
    z: str = "no"


class Optional(BaseModel):
    value: float | None = None


RETURNED: list[Any] = [None]


class Agent(A2AAgent[Any, Any]):
    name = "values"

    @skill
    async def take(
        self,
        ctx: RunContext[NoAuth],
        n: int,
        point: Point | None = None,
        size: int = Field(default=2, ge=1, le=5),
        tags: list[str] = Field(default_factory=list),  # noqa: B008 - the way pydantic says it
    ) -> list[Any]:
        return [n, point.x if point else None, size, tags]

    @skill
    async def an_int(self, ctx: RunContext[NoAuth]) -> int:
        return RETURNED[0]

    @skill
    async def a_float(self, ctx: RunContext[NoAuth]) -> float:
        return RETURNED[0]

    @skill
    async def a_model(self, ctx: RunContext[NoAuth]) -> Point:
        return RETURNED[0]

    @skill
    async def an_optional(self, ctx: RunContext[NoAuth]) -> Optional:
        return RETURNED[0]

    @skill
    async def a_time(self, ctx: RunContext[NoAuth]) -> datetime:
        return RETURNED[0]

    @skill
    async def a_dict(self, ctx: RunContext[NoAuth]) -> dict[str, Any]:
        return RETURNED[0]

    @skill
    async def nothing(self, ctx: RunContext[NoAuth]) -> None:
        return RETURNED[0]

    @skill
    async def anything(self, ctx: RunContext[NoAuth]):  # type: ignore[no-untyped-def]
        return RETURNED[0]


def ctx() -> LocalRunContext[Any]:
    return LocalRunContext(auth=NoAuth())


async def returns(skill_name: str, value: Any) -> Any:
    RETURNED[0] = value
    return await Agent().invoke_json(skill_name, ctx(), {})


async def test_arguments_are_coerced_and_defaults_filled_in() -> None:
    agent = Agent()
    assert await agent.invoke("take", ctx(), n="3") == [3, None, 2, []]
    assert await agent.invoke("take", ctx(), n=1, point=Point(x=4), size="5") == [1, 4, 5, []]
    payload = {"n": 1.0, "point": {"x": "7"}, "tags": ["a"]}
    assert await agent.invoke_json("take", ctx(), payload) == [1, 7, 2, ["a"]]


async def test_defaults_are_made_anew_for_each_run() -> None:
    values = [find_skill(Agent(), "take").arguments.from_json({"n": 1})["tags"] for _ in range(2)]
    assert values[0] is not values[1]


@pytest.mark.parametrize(
    ("payload", "errors"),
    [
        ({}, [(["n"], "missing")]),
        ({"n": 1, "m": 2}, [(["m"], "extra_forbidden")]),
        ({"n": "x"}, [(["n"], "int_parsing")]),
        ({"n": 1, "size": 9}, [(["size"], "less_than_equal")]),
        (
            {"n": 1, "point": {"x": []}, "tags": [1]},
            [(["point", "x"], "int_type"), (["tags", 0], "string_type")],
        ),
        ({"o": 1}, [(["o"], "extra_forbidden"), (["n"], "missing")]),
        ({"n": math.nan}, [(["n"], "json_invalid")]),
        ({"n": 1, "tags": ["\ud800"]}, [(["tags"], "json_invalid")]),
    ],
)
async def test_wrong_arguments_are_refused_with_every_place(
    payload: dict[str, Any], errors: list[tuple[list[Any], str]]
) -> None:
    with pytest.raises(SkillInputError) as caught:
        await Agent().invoke_json("take", ctx(), payload)
    assert [(error["loc"], error["type"]) for error in caught.value.errors] == errors
    assert all(set(error) == {"loc", "msg", "type"} for error in caught.value.errors)


async def test_the_texts_of_refusals_have_their_fragments_and_no_values() -> None:
    with pytest.raises(SkillInputError, match="unknown parameter.*missing required"):
        await Agent().invoke("take", ctx(), hunter2="x")
    with pytest.raises(SkillInputError) as caught:
        await Agent().invoke("take", ctx(), n="hunter2")
    assert "hunter2" not in str(caught.value) + str(caught.value.errors)


async def test_arguments_that_are_no_object_or_too_deep_are_refused() -> None:
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    wrong: list[Any] = [[], "text", {"n": 1, "tags": deep}]
    for value in wrong:
        with pytest.raises(SkillInputError):
            await Agent().invoke_json("take", ctx(), value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("an_int", 3, 3),
        ("a_float", 3, 3),
        ("a_model", Point(x=1), {"x": 1, "y": 0}),
        ("a_model", {"x": 1}, {"x": 1}),
        ("a_time", datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        ("a_time", "2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("nothing", None, None),
        ("anything", {"a": (1, 2)}, {"a": [1, 2]}),
    ],
)
async def test_results_that_fit_pass(name: str, value: Any, expected: Any) -> None:
    assert await returns(name, value) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("an_int", "3"),
        ("an_int", 3.5),
        ("an_int", None),
        ("a_float", math.nan),
        ("a_float", math.inf),
        ("an_optional", Optional(value=math.nan)),
        ("a_dict", {"a": math.nan}),
        ("a_dict", {1, 2}),
        ("a_dict", {"a": object()}),
        ("a_dict", {"a": "\ud800"}),
        ("a_model", Other()),
        ("a_model", "text"),
        ("nothing", 1),
        ("anything", object()),
    ],
)
async def test_results_that_do_not_fit_are_refused(name: str, value: Any) -> None:
    with pytest.raises(SkillOutputError) as caught:
        await returns(name, value)
    assert caught.value.code == "skill-output-invalid"


async def test_a_result_that_contains_itself_or_is_too_deep_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    for value in (circle, {"a": deep}):
        with pytest.raises(SkillOutputError):
            await returns("a_dict", value)


async def test_a_result_over_4_mib_is_refused_with_advice() -> None:
    with pytest.raises(SkillOutputError, match="artifact") as caught:
        await returns("anything", "x" * (5 * 1024 * 1024))
    assert caught.value.code == "result-too-large"


async def test_python_callers_get_the_annotated_type() -> None:
    RETURNED[0] = {"x": 1}
    assert await Agent().invoke("a_model", ctx()) == Point(x=1)
