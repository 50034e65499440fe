"""The OpenAPI document: complete because it is the table, true because its shapes are those that validate."""

from collections import Counter
from typing import Any

from molecule_platform.web.pipeline import openapi
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.route_table import TABLE
from molecule_wire import errors
from tests.rows import each_row

DOCUMENT = openapi.document(TABLE, "1.2.3")


def operation(route: Route) -> dict[str, Any]:
    return DOCUMENT["paths"][route.path][route.method.lower()]


@each_row("route", TABLE)
def test_every_row_is_there_with_who_may_call_it_and_what_it_answers(route: Route) -> None:
    told = operation(route)
    assert told["x-who"] == [str(who) for who in route.who]
    assert bool(told["security"]) is not route.is_public
    assert {str(status) for status in route.status} <= set(told["responses"])
    named = {parameter["name"] for parameter in told["parameters"] if parameter["in"] == "path"}
    assert all(f"{{{name}}}" in route.path for name in named)


@each_row("route", TABLE)
def test_every_route_that_answers_json_says_in_which_shape(route: Route) -> None:
    if route.media == "application/json" and route.path != "/ws" and route.status != (204,):
        assert route.reply is not None


def test_every_code_that_a_row_names_is_in_the_error_table() -> None:
    for route in TABLE:
        assert set(openapi.codes_of(route)) <= set(errors.TABLE), route.path


def test_operations_have_names_of_their_own() -> None:
    names = Counter(
        operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()
    )
    assert names.most_common(1)[0][1] == 1


def test_every_reference_leads_to_a_schema_and_shapes_have_plain_names() -> None:
    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            return own + [found for inner in value.values() for found in references(inner)]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, list):
            return [found for inner in value for found in references(inner)]  # pyright: ignore[reportUnknownVariableType]
        return []

    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert set(references(DOCUMENT)) <= known
    assert all("." not in name for name in known)


def test_a_creating_post_takes_a_key_and_may_conflict() -> None:
    create = DOCUMENT["paths"]["/workspaces"]["post"]
    assert "Idempotency-Key" in [parameter["name"] for parameter in create["parameters"]]
    assert "idempotency-conflict" in create["responses"]["409"]["description"]
