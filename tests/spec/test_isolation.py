"""Two organisations with the same names in them: to each, nothing of the other exists."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import requests

from molecule_platform.domain import principals
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.route_table import TABLE
from molecule_wire import times
from tests.spec.platforms import Platform, message

Outsider = Callable[..., requests.Response]

THEIR_KEY, THEIR_USER = "ONLY_THEIRS", "vera-of-theirs"
UNKNOWN = {
    "id": "00000000-0000-4000-8000-000000000000",
    "message_id": "01890000-0000-7000-8000-000000000000",
    "token_id": "01890000-0000-7000-8000-000000000001",
    "grant_id": "01890000-0000-7000-8000-000000000002",
    "key": "NEVER_KEPT",
    "name": "nora",
    "org": "nowhere",
    "task_id": "01890000-0000-7000-8000-000000000003",
    "config_id": "01890000-0000-7000-8000-000000000004",
    "delegation_id": "01890000-0000-7000-8000-000000000005",
    "tenant": "acme-tenant",
}
ORG_SCOPES = ["org", "metrics.read"]
REFUSED = (401, 403, 404)


@dataclass(frozen=True)
class Neighbours:
    """The things of one organisation by the names of path parameters, and the people of the other."""

    theirs: Mapping[str, str]
    outsiders: Mapping[str, Outsider]
    own: Mapping[str, str]

    def marks(self) -> list[str]:
        """Texts that nobody outside may ever read."""
        told = ("id", "message_id", "token_id", "grant_id", "key", "name", "org_id")
        return [self.theirs[name] for name in told]


def furnish(platform: Platform, org: str) -> dict[str, str]:
    """The same things in an organisation of any name, by the administrator acting there."""
    there = {"X-Molecule-Org-Id": org}

    def ok(method: str, path: str, body: Any = None) -> Any:
        return platform.ok(method, path, json=body, headers=there)

    lead = ok("POST", "/workspaces", {"name": "lead", "runtime": "external"})
    inner = {"name": "inner", "runtime": "external", "parent_id": lead["id"]}
    inner_id = ok("POST", "/workspaces", inner)["id"]
    expires_at = times.format_time(datetime.now(UTC) + timedelta(days=1))
    grant = {"from": inner_id, "to": lead["id"], "expires_at": expires_at, "reason": "a test"}
    ok("POST", "/settings/secrets", {"key": "SHARED", "value": f"of-{org}"})
    asked = platform.send(lead["id"], "hello", headers={"Prefer": "respond-async"} | there).json()
    tokens = f"/workspaces/{lead['id']}/tokens"
    delegated = ok("POST", f"/workspaces/{lead['id']}/delegate", {"target_id": inner_id, "task": "a task"})
    return {
        "id": lead["id"],
        "inner": inner_id,
        "workspace_token": lead["connection"]["auth_token"],
        "token_id": ok("POST", tokens, {"name": "ci"})["id"],
        "org_token": ok("POST", "/org/tokens", {"scopes": ORG_SCOPES})["auth_token"],
        "grant_id": ok("POST", "/access/grants", grant)["id"],
        "message_id": asked["message_id"],
        "task_id": asked["result"]["id"],
        "config_id": "a-config",
        "delegation_id": delegated["delegation_id"],
        "tenant": "acme-tenant",
        "key": "SHARED",
        "org": org,
        "org_id": ok("GET", f"/orgs/{org}")["id"],
    }


def browser_of(platform: Platform, user: str, role: str, org: str) -> requests.Session:
    body = {"user": user, "role": role, "org_id": org}
    link = platform.ok("POST", "/auth/login-codes", json=body)["url"]
    browser = requests.Session()
    answer = browser.post(f"{platform.url}/auth/login", json={"code": link.partition("code=")[2]}, timeout=30)
    browser.headers.update({"X-CSRF-Token": answer.json()["csrf_token"], "Origin": platform.url})
    return browser


def bearing(platform: Platform, token: str) -> Outsider:
    def ask(method: str, path: str, **request: Any) -> requests.Response:
        return platform.call(method, path, token, **request)

    return ask


def browsing(platform: Platform, browser: requests.Session) -> Outsider:
    def ask(method: str, path: str, **request: Any) -> requests.Response:
        return browser.request(method, platform.url + path, timeout=30, **request)

    return ask


@pytest.fixture
def neighbours(platform: Platform) -> Iterator[Neighbours]:
    acme = platform.ok("POST", "/orgs", json={"name": f"Acme {uuid4()}"})["slug"]
    theirs, own = furnish(platform, platform.org), furnish(platform, acme)
    platform.ok("POST", "/settings/secrets", json={"key": THEIR_KEY, "value": "hidden"})
    platform.ok("POST", "/auth/login-codes", json={"user": THEIR_USER, "role": "owner"})
    browsers = {role: browser_of(platform, f"ann-{role}", role, acme) for role in principals.ROLE_SCOPES}

    outsiders = {role: browsing(platform, browser) for role, browser in browsers.items()}
    for who in ("org_token", "workspace_token"):
        outsiders[who] = bearing(platform, own[who])
    outsiders["nobody"] = bearing(platform, "")
    yield Neighbours(theirs | {"key": THEIR_KEY, "name": THEIR_USER}, outsiders, own)
    for browser in browsers.values():
        browser.close()


def body_for(route: Route) -> Any:
    """The smallest body that the route's shape accepts."""
    if route.limit == "a2a":
        return message("hello")
    if route.body is None:
        return None
    samples: dict[type, Any] = {
        msgspec.inspect.StrType: "x",
        msgspec.inspect.DictType: {"name": "x"},
        msgspec.inspect.BoolType: True,
        msgspec.inspect.ListType: [],
    }
    shape = msgspec.inspect.type_info(route.body)
    assert isinstance(shape, msgspec.inspect.StructType)
    return {field.encode_name: samples[type(field.type)] for field in shape.fields if field.required}


def path_of(route: Route, values: Mapping[str, str]) -> str:
    return re.sub(r"{(\w+)}", lambda found: values[found[1]], route.path)


def told(answer: requests.Response, values: Mapping[str, str]) -> tuple[int, str]:
    """An answer without what must differ: its own id, and the names that were asked for."""
    said = answer.json()
    said.pop("request_id", None)
    text = json.dumps(said, sort_keys=True).replace(answer.headers["X-Request-Id"], "")
    for name in UNKNOWN:
        text = text.replace(values[name], f"<{name}>")
    return answer.status_code, text


ADDRESSED = [route for route in TABLE if "{" in route.path]
LISTS = [
    route
    for route in TABLE
    if route.method == "GET" and "{" not in route.path and not route.stream and not route.is_public
]


def test_what_is_refused_outside_is_there_for_those_inside(neighbours: Neighbours) -> None:
    for who in ("viewer", "owner", "org_token", "workspace_token"):
        insider = neighbours.outsiders[who]
        assert insider("GET", f"/workspaces/{neighbours.own['id']}").status_code == 200
        assert neighbours.own["id"] in insider("GET", "/workspaces").text


def test_no_route_reaches_anything_of_another_organisation(neighbours: Neighbours) -> None:
    for route in ADDRESSED:
        body = body_for(route)
        for who, outsider in neighbours.outsiders.items():
            asked = outsider(route.method, path_of(route, neighbours.theirs), json=body)
            what = f"{who}: {route.method} {route.path} said {asked.status_code} {asked.text}"
            assert asked.status_code in REFUSED, what
            # /state may tell an unknown id from a known one; nothing else may.
            if not route.gone_first:
                unknown = outsider(route.method, path_of(route, UNKNOWN), json=body)
                assert told(asked, neighbours.theirs) == told(unknown, UNKNOWN), what


def test_no_list_shows_anything_of_another_organisation(neighbours: Neighbours) -> None:
    for route in LISTS:
        for who, outsider in neighbours.outsiders.items():
            answer = outsider("GET", route.path)
            seen = [mark for mark in neighbours.marks() if mark in answer.text]
            assert not seen, f"{who}: GET {route.path} shows {seen}"


def test_no_body_and_no_header_names_anything_of_another_organisation(neighbours: Neighbours) -> None:
    theirs, own = neighbours.theirs["id"], neighbours.own["id"]
    owner, workspace = neighbours.outsiders["owner"], neighbours.outsiders["workspace_token"]
    grant = {
        "from": own,
        "to": theirs,
        "expires_at": times.format_time(datetime.now(UTC) + timedelta(days=1)),
        "reason": "x",
    }
    user = {"user": "eve", "role": "viewer"}
    attempts: list[tuple[Outsider, str, str, dict[str, Any]]] = [
        (owner, "POST", "/workspaces", {"json": {"name": "x", "runtime": "external", "parent_id": theirs}}),
        (owner, "POST", "/access/grants", {"json": grant}),
        (owner, "POST", "/access/grants", {"json": grant | {"from": theirs, "to": own}}),
        (owner, "POST", "/auth/login-codes", {"json": user | {"org_id": neighbours.theirs["org_id"]}}),
        (owner, "POST", "/auth/login-codes", {"json": user | {"org_id": neighbours.theirs["org"]}}),
        (owner, "GET", "/workspaces", {"headers": {"X-Molecule-Org-Id": neighbours.theirs["org"]}}),
        (owner, "GET", "/workspaces", {"headers": {"X-Workspace-ID": theirs}}),
        (workspace, "GET", "/workspaces", {"headers": {"X-Workspace-ID": theirs}}),
        (workspace, "POST", "/registry/heartbeat", {"json": {"workspace_id": theirs}}),
        (workspace, "POST", "/registry/register", {"json": {"id": theirs, "agent_card": {"name": "x"}}}),
        (
            workspace,
            "POST",
            "/registry/update-card",
            {"json": {"workspace_id": theirs, "agent_card": {"name": "x"}}},
        ),
    ]
    for outsider, method, path, request in attempts:
        answer = outsider(method, path, **request)
        assert answer.status_code in REFUSED, f"{method} {path} {request} said {answer.text}"


def test_access_to_another_organisation_is_explained_as_to_somebody_unknown(neighbours: Neighbours) -> None:
    own, org_token = neighbours.own["id"], neighbours.outsiders["org_token"]
    for caller, target in ((own, "id"), ("id", own)):
        answers: list[tuple[str, str]] = []
        for values in (neighbours.theirs, UNKNOWN):
            named = [values.get(side, side) for side in (caller, target)]
            checked = org_token(
                "POST", "/registry/check-access", json={"caller_id": named[0], "target_id": named[1]}
            )
            assert checked.json().get("allowed", False) is False
            explained = org_token("GET", f"/access/explain?caller={named[0]}&target={named[1]}")
            answers.append((told(checked, values)[1], told(explained, values)[1]))
        assert answers[0] == answers[1]


def test_the_administrator_finds_each_organisation_s_own_things_under_its_name(platform: Platform) -> None:
    acme = platform.ok("POST", "/orgs", json={"name": f"Acme {uuid4()}"})["slug"]
    made = {org: furnish(platform, org) for org in (platform.org, acme)}
    for org, things in made.items():
        rows = platform.ok("GET", "/workspaces", headers={"X-Molecule-Org-Id": org})
        assert {row["id"] for row in rows} == {things["id"], things["inner"]}
    unknown = platform.call("GET", "/workspaces", headers={"X-Molecule-Org-Id": "nowhere"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")
