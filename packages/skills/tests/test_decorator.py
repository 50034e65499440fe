"""The decorator: every refusal names function and parameter, at once."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# Functions without annotations are what is tested.

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field

from molecule_skill import A2AAgent, FileUpload, RunContext, UploadedFile, skill, tool
from molecule_skill.identity import NoAuth

if TYPE_CHECKING:
    from molecule_skill import context as only_for_types


def refused(function: Any, **options: Any) -> str:
    with pytest.raises(TypeError) as caught:
        skill(**options)(function)
    assert function.__name__ in str(caught.value)
    return str(caught.value)


async def good(self: Any, ctx: RunContext[NoAuth], a: int) -> int:
    return a


def test_a_function_that_is_not_async_is_refused() -> None:
    def plain(self: Any, ctx: RunContext[NoAuth]) -> None: ...

    assert "async" in refused(plain)


def test_an_async_generator_is_refused() -> None:
    async def stream(self: Any, ctx: RunContext[NoAuth]) -> Any:
        yield 1

    assert "async generator" in refused(stream)


def test_a_missing_or_wrong_context_parameter_is_refused() -> None:
    async def without(self: Any) -> None: ...

    async def other(self: Any, ctx: int) -> None: ...

    async def bare(self: Any, ctx) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore

    assert all("RunContext" in refused(function) for function in (without, other, bare))


def test_variadic_and_positional_only_parameters_are_refused() -> None:
    async def stars(self: Any, ctx: RunContext[NoAuth], *args: int) -> None: ...

    async def more(self: Any, ctx: RunContext[NoAuth], **kwargs: int) -> None: ...

    async def named(self: Any, ctx: RunContext[NoAuth], *rest: int) -> None: ...

    async def before(self: Any, ctx: RunContext[NoAuth], a: int, /) -> None: ...

    assert "*args" in refused(stars)
    assert "**kwargs" in refused(more)
    assert "*rest" in refused(named)
    assert "'ctx'" in refused(before)


def test_a_parameter_without_annotation_is_named() -> None:
    async def bare(self: Any, ctx: RunContext[NoAuth], size) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore

    text = refused(bare)
    assert "missing a type annotation" in text
    assert "'size'" in text


@pytest.mark.parametrize("name", ["self", "ctx", "context"])
def test_reserved_parameter_names_are_refused(name: str) -> None:
    source = f"async def f(me, run: RunContext, {name}: int) -> None: ..."
    space: dict[str, Any] = {"RunContext": RunContext}
    exec(source, space)
    text = refused(space["f"])
    assert "reserved" in text
    assert repr(name) in text


class Unbuildable:
    pass


def test_an_annotation_that_pydantic_cannot_build_is_named() -> None:
    async def odd(self: Any, ctx: RunContext[NoAuth], thing: Unbuildable) -> None: ...

    assert "'thing'" in refused(odd)


def test_an_annotation_that_does_not_resolve_is_named() -> None:
    async def lost(self: Any, ctx: RunContext[NoAuth], thing: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore

    assert "'thing'" in refused(lost)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"input_schema": {"type": "array"}}, "input_schema"),
        ({"input_schema": []}, "input_schema"),
        ({"max_retries": -1, "idempotent": True}, "max_retries"),
        ({"max_retries": 1}, "idempotent"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": -1.0}, "timeout_seconds"),
        ({"concurrency": 0}, "concurrency"),
        ({"name": "Upper"}, "Upper"),
        ({"name": "a" * 65}, "name"),
        ({"grant_read": ["a/../b"]}, "grant_read"),
        ({"grant_read": ["**/*.py"]}, "grant_read"),
        ({"grant_write": ["a?"]}, "grant_write"),
        ({"grant_deny": ["[a]"]}, "grant_deny"),
        ({"grant_read": "data/**"}, "grant_read"),
        ({"grant_mode": "any"}, "grant_mode"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], fragment: str) -> None:
    assert fragment in refused(good, **options)


def test_deny_patterns_may_use_the_forms_that_only_deny() -> None:
    @skill(grant_deny=["**/.env", "**/*.pem", "**/node_modules/**"], grant_read=["data/**"])
    async def reads(self: Any, ctx: RunContext[NoAuth]) -> None: ...

    assert reads.__molecule_skill__.grant_deny == ("**/.env", "**/*.pem", "**/node_modules/**")  # type: ignore[attr-defined]


def test_string_annotations_are_resolved_also_those_of_local_classes() -> None:
    class Inner(BaseModel):
        a: int

    class Agent(A2AAgent[Any, Any]):
        name = "local-types"

        @skill
        async def use(self, ctx: RunContext[NoAuth], inner: Inner) -> list[Inner]:
            return [inner]

        @tool(name="other")
        async def only(self, ctx: only_for_types.RunContext[NoAuth]) -> None: ...

    assert set(Agent.skills) == {"use", "other"}
    assert Agent.skills["use"].input_schema["properties"] == {"inner": {"$ref": "#/$defs/Inner"}}


def test_the_schema_has_exact_properties_and_no_context() -> None:
    class Agent(A2AAgent[Any, Any]):
        name = "schema"

        @skill
        async def f(
            self,
            ctx: RunContext[NoAuth],
            a: int,
            b: str = "x",
            c: int = Field(default=3, ge=1),
            d: float = Field(ge=0.0),
            upload: Annotated[
                UploadedFile | None, FileUpload(["text/csv"], 100, description="A table")
            ] = None,
        ) -> dict[str, int]:
            """First paragraph
            on two lines.

            Second.
            """
            return {}

    spec = Agent.skills["f"]
    schema = spec.input_schema
    assert spec.description == "First paragraph on two lines."
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == ["a", "b", "c", "d", "upload"]
    assert schema["required"] == ["a", "d"]
    assert schema["properties"]["c"] == {"type": "integer", "minimum": 1, "default": 3}
    assert schema["properties"]["upload"]["x-a2a-file-upload"] == {
        "required_upload": True,
        "accept": ["text/csv"],
        "max_bytes": 100,
        "description": "A table",
    }


def test_a_published_schema_may_be_overridden_and_validation_still_uses_the_annotations() -> None:
    class Agent(A2AAgent[Any, Any]):
        name = "override"

        @skill(input_schema={"type": "object", "title": "Mine"})
        async def f(self, ctx: RunContext[NoAuth], a: int) -> int:
            return a

    assert Agent.card().skills[0].input_schema == {"type": "object", "title": "Mine"}
    assert set(Agent.skills["f"].arguments.parameters) == {"a"}
