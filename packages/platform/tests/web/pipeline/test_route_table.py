"""The route table: complete, each row says who, and the router finds exactly it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain.authorisation import ANY, PUBLIC
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import KNOWN_SCOPES
from molecule_platform.web.pipeline.pipeline import Pipeline
from molecule_platform.web.pipeline.request import EdgeSettings
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.route_table import TABLE
from molecule_platform.web.pipeline.router import Router
from molecule_platform.web.pipeline.schemas import NewBody
from molecule_platform.web.routes.inbox_schemas import LeaseInbox
from molecule_platform.web.routes.registry_schemas import Register
from tests.rows import each_row

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Visitor

ROUTER = Router(TABLE)
ID = "11111111-1111-4111-8111-111111111111"
OPEN_TO_ALL = {
    "/health",
    "/healthz",
    "/ready",
    "/readyz",
    "/auth/login",
    "/registry/register",
    "/.well-known/jwks.json",
    "/agents/{id}/.well-known/agent-card.json",
    "/agents/{id}/.well-known/agent.json",
}


def test_every_route_says_who_may_call_it_and_what_it_does() -> None:
    for route in TABLE:
        assert route.who, route.path
        assert route.summary.endswith("."), route.path
        assert route.method in ("GET", "POST", "PUT", "PATCH", "DELETE"), route.path


def test_only_the_listed_routes_are_open_to_everybody() -> None:
    assert {route.path for route in TABLE if PUBLIC in route.who} == OPEN_TO_ALL


def test_no_operation_is_listed_twice() -> None:
    operations = [(route.method, route.path) for route in TABLE]
    assert len(operations) == len(set(operations))


def test_secret_values_are_for_the_workspace_itself_and_nobody_else() -> None:
    [route] = [route for route in TABLE if route.path.endswith("/secrets/values")]
    assert [str(who) for who in route.who] == ["self(ws.secrets.read)"]


def test_every_rule_that_is_not_open_names_a_known_scope() -> None:
    named = {who.scope for route in TABLE for who in route.who if who not in (PUBLIC, ANY)}
    assert named <= KNOWN_SCOPES | {""}


@pytest.mark.parametrize("spoilt", ["missing", "extra"])
def test_a_row_without_a_handler_or_a_handler_without_a_row_stops_the_start(spoilt: str) -> None:
    async def handler(_call: Any) -> Any:
        raise AssertionError

    handlers = {route.name: handler for route in TABLE if route.path != "/ws"}
    if spoilt == "missing":
        del handlers["health"]
    else:
        handlers["secret.door"] = handler
    nothing = cast("Any", None)
    with pytest.raises(RuntimeError, match="health" if spoilt == "missing" else "secret.door"):
        Pipeline(handlers, nothing, nothing, EdgeSettings(), nothing, nothing)


# The router


def filled(route: Route) -> str:
    return re.sub(r"\{\w+\}", "name", route.path.replace("{id}", ID))


@each_row("route", TABLE)
@each_row("slash", ["", "/"])
def test_every_row_is_found_with_and_without_a_trailing_slash(route: Route, slash: str) -> None:
    match = ROUTER.match(route.method, filled(route) + slash)
    assert match is not None
    assert match.route == route


def test_head_is_served_where_get_is_and_nowhere_else() -> None:
    match = ROUTER.match("HEAD", "/health")
    assert match is not None
    assert match.route.method == "GET"
    with pytest.raises(ApiError):
        ROUTER.match("HEAD", "/registry/heartbeat")


def test_a_wrong_method_says_which_are_right() -> None:
    with pytest.raises(ApiError) as refused:
        ROUTER.match("PATCH", f"/workspaces/{ID}/secrets")
    assert refused.value.code == "method-not-allowed"
    assert refused.value.sentence == "PATCH is not served here: use GET, POST, PUT"


def found(method: str, path: str) -> tuple[str | None, dict[str, str]]:
    """Which route of an agent is taken, and the values in its path."""
    match = ROUTER.match(method, f"/agents/{ID}/{path}")
    if match is None:
        return None, {}
    assert match.path["id"] == ID
    values = {name: value for name, value in match.path.items() if name != "id"}
    return match.route.path.removeprefix("/agents/{id}/"), values


@pytest.mark.parametrize(
    ("method", "path", "expected", "values"),
    [
        ("POST", "tasks/t:cancel", "tasks/{task_id}:cancel", {"task_id": "t"}),
        ("GET", "tasks/t:subscribe", "tasks/{task_id}:subscribe", {"task_id": "t"}),
        ("GET", "tasks/a:b", "tasks/{task_id}", {"task_id": "a:b"}),
        ("GET", "acme/tasks", "{tenant}/tasks", {"tenant": "acme"}),
        ("GET", "tasks/tasks", "tasks/{task_id}", {"task_id": "tasks"}),
        ("GET", "v1/tasks/t", "v1/tasks/{task_id}", {"task_id": "t"}),
        ("POST", "acme/message:send", "{tenant}/message:send", {"tenant": "acme"}),
        ("POST", "v1/message:send", "v1/message:send", {}),
        ("GET", "v1/tasks", None, {}),
        ("GET", "a:b/tasks", None, {}),
        ("GET", ".well-known/tasks", None, {}),
    ],
)
def test_words_of_a_path_win_over_values_and_are_no_tenants(
    method: str, path: str, expected: str | None, values: dict[str, str]
) -> None:
    assert found(method, path) == (expected, values)


@pytest.mark.parametrize(
    ("method", "path", "expected", "values"),
    [
        ("GET", "tasks/sl%2Fash", "tasks/{task_id}", {"task_id": "sl/ash"}),
        ("GET", "v1/tasks/sl%2fash", "v1/tasks/{task_id}", {"task_id": "sl/ash"}),
        ("POST", "tasks/sl%2Fash:cancel", "tasks/{task_id}:cancel", {"task_id": "sl/ash"}),
        ("POST", "tasks/sl%2Fash%3Acancel", "tasks/{task_id}:cancel", {"task_id": "sl/ash"}),
        ("GET", "acme/tasks/%2F", "{tenant}/tasks/{task_id}", {"tenant": "acme", "task_id": "/"}),
        ("GET", "tasks/a%252Fb", "tasks/{task_id}", {"task_id": "a%2Fb"}),
        ("GET", "tasks/a%3Ab%3F%20%C3%BC", "tasks/{task_id}", {"task_id": "a:b? ü"}),
        ("GET", "tasks/%2E%2E%2Fx", "tasks/{task_id}", {"task_id": "../x"}),
        (
            "GET",
            "tasks/a%2Fb/pushNotificationConfigs/c%20d",
            "tasks/{task_id}/pushNotificationConfigs/{config_id}",
            {"task_id": "a/b", "config_id": "c d"},
        ),
        ("GET", "%74asks/t", "tasks/{task_id}", {"task_id": "t"}),
        ("GET", "tasks%2Ft", None, {}),
        ("GET", "tasks/t/pushNotificationConfigs/c%2Fd", None, {}),
        ("GET", "a%2Fb/tasks", None, {}),
        ("GET", "%3A/tasks", None, {}),
    ],
)
def test_what_is_encoded_in_a_segment_is_never_a_border_of_two(
    method: str, path: str, expected: str | None, values: dict[str, str]
) -> None:
    assert found(method, path) == (expected, values)


@pytest.mark.parametrize(
    "path",
    [
        f"/workspaces%2F{ID}",
        f"/workspaces/{ID}%2Fsecrets",
        f"/workspaces/{ID}/secrets/a%2Fb",
        f"/workspaces/{ID}/plugins/..%2Fb",
        "/messages/a%2Fb",
    ],
)
def test_no_value_but_the_id_of_a_task_holds_a_slash(path: str) -> None:
    for method in ("GET", "DELETE"):
        assert ROUTER.match(method, path) is None


def test_a_secret_may_be_named_like_a_route() -> None:
    match = ROUTER.match("DELETE", f"/workspaces/{ID}/secrets/values")
    assert match is not None
    assert match.path["key"] == "values"


def test_what_strangers_make_up_is_not_remembered_at_any_length() -> None:
    router = Router(TABLE)
    for number in range(10):
        assert router.match("GET", f"/messages/{number}{'x' * 60_000}") is not None
    assert router.match("GET", f"/messages/{ID}") is not None
    assert [path for _, path in router._known] == [f"/messages/{ID}"]


@given(st.text(alphabet="abc/{}%-", max_size=20), st.sampled_from(["GET", "POST", "TRACE"]))
def test_any_other_path_is_nobody_s(path: str, method: str) -> None:
    assert ROUTER.match(method, f"/elsewhere/{path}") is None


@pytest.mark.parametrize("given_id", ["x", "1", "..", ID[:-1], ID + "0", "%31"])
def test_an_id_that_is_no_uuid_is_refused(given_id: str) -> None:
    match = ROUTER.match("GET", f"/workspaces/{given_id}")
    assert match is not None
    with pytest.raises(ApiError) as refused:
        _ = match.workspace_id
    assert refused.value.code == "invalid-id"


def test_the_case_of_an_id_makes_no_difference() -> None:
    match = ROUTER.match("GET", f"/workspaces/{ID.replace('1', 'A')}")
    assert match is not None
    assert match.workspace_id == ID.replace("1", "a")


def test_new_routes_refuse_members_they_do_not_know_and_old_ones_ignore_them() -> None:
    strict = {route.body for route in TABLE if route.body and issubclass(route.body, NewBody)}
    assert LeaseInbox in strict
    assert Register not in strict


# Served by the whole house


async def test_a_websocket_s_address_is_no_page(visit: Visitor) -> None:
    answer = await visit("GET", "/ws")
    assert answer.status < 500


@pytest.mark.parametrize("path", ["/health", "/healthz", "/health/"])
async def test_health_answers_whoever_asks_and_whatever_they_carry(visit: Visitor, path: str) -> None:
    for token in (None, "made up"):
        answer = await visit("GET", path, token=token)
        assert (answer.status, answer.json["status"]) == (200, "ok")


async def test_head_has_the_headers_of_get_and_no_body(visit: Visitor) -> None:
    get, head = await visit("GET", "/health"), await visit("HEAD", "/health")
    assert (head.status, head.raw) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


async def test_a_secret_that_is_named_like_a_route_can_be_deleted(visit: Visitor) -> None:
    ada, _ = await visit.workspace()
    await visit("POST", f"/workspaces/{ada}/secrets", {"key": "values", "value": "x"})
    assert (await visit("DELETE", f"/workspaces/{ada}/secrets/values")).status == 200
