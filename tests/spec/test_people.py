"""People and organisations over HTTP: who belongs where, as what, and how that ends."""

import time
from dataclasses import replace
from typing import Any

import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from molecule_platform.web.streams import websocket
from tests.spec.platforms import Platform, Start

# Long before a quiet socket is asked whether anybody is there.
SOON_SECONDS = websocket.QUIET_SECONDS / 4


def browser_of(platform: Platform, user: str, role: str, **more: Any) -> requests.Session:
    """A browser in which somebody has signed in."""
    body = {"user": user, "role": role, **more}
    link = platform.ok("POST", "/auth/login-codes", json=body)["url"]
    browser = requests.Session()
    answer = browser.post(f"{platform.url}/auth/login", json={"code": link.partition("code=")[2]}, timeout=30)
    browser.headers.update({"X-CSRF-Token": answer.json()["csrf_token"], "Origin": platform.url})
    return browser


def session_of(platform: Platform, browser: requests.Session) -> requests.Response:
    return browser.get(f"{platform.url}/auth/session", timeout=30)


def test_the_people_of_an_organisation_are_listed_with_what_they_are(first_org: Platform) -> None:
    browser = browser_of(first_org, "ann", "owner")
    first_org.ok("POST", "/auth/login-codes", json={"user": "bert", "role": "viewer"})
    rows = browser.get(f"{first_org.url}/users", timeout=30).json()
    assert [row["name"] for row in rows] == ["admin", "ann", "bert"]
    _admin, ann, bert = rows
    assert ann.keys() == {"name", "role", "disabled", "created_at", "last_login_at"}
    assert (ann["role"], ann["disabled"], ann["last_login_at"] is not None) == ("owner", False, True)
    assert (bert["role"], bert["last_login_at"]) == ("viewer", None)
    shown = {row["name"]: row["platform_admin"] for row in first_org.ok("GET", "/users")}
    assert shown == {"admin": True, "ann": False, "bert": False}


def test_people_come_in_pages(first_org: Platform) -> None:
    for name in ("ann", "bert"):
        first_org.ok("POST", "/auth/login-codes", json={"user": name})
    first = first_org.call("GET", "/users?limit=2")
    assert [row["name"] for row in first.json()] == ["admin", "ann"]
    rest = first_org.call("GET", f"/users?limit=2&cursor={first.headers['X-Next-Cursor']}")
    assert [row["name"] for row in rest.json()] == ["bert"]
    assert "X-Next-Cursor" not in rest.headers


@pytest.mark.parametrize(
    ("change", "code"), [({"role": "viewer"}, 200), ({"disabled": True}, 200), (None, 204)]
)
def test_a_change_signs_somebody_out_at_once(
    platform: Platform, change: dict[str, Any] | None, code: int
) -> None:
    browser = browser_of(platform, "ann", "admin")
    assert session_of(platform, browser).status_code == 200
    method = "DELETE" if change is None else "PATCH"
    answer = platform.call(method, "/users/ann", json=change)
    assert answer.status_code == code
    if change is not None:
        assert answer.json().items() >= change.items()
    assert session_of(platform, browser).json()["code"] == "token-revoked"


def test_the_last_owner_stays(first_org: Platform) -> None:
    for method, body in (("PATCH", {"role": "admin"}), ("PATCH", {"disabled": True}), ("DELETE", None)):
        answer = first_org.call(method, "/users/admin", json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        assert "last owner" in answer.json()["error"]
    browser_of(first_org, "ann", "owner")
    assert first_org.call("DELETE", "/users/admin").status_code == 204


def test_a_body_with_an_unknown_field_or_role_changes_nothing(platform: Platform) -> None:
    browser_of(platform, "ann", "member")
    for body in ({"role": "king"}, {"rol": "owner"}, {"disabled": "yes"}):
        assert platform.call("PATCH", "/users/ann", json=body).json()["code"] == "invalid-request"
    unknown = platform.call("PATCH", "/users/nobody", json={"role": "owner"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")


def test_who_is_disabled_is_told_so_when_signing_in(first_org: Platform) -> None:
    browser_of(first_org, "ann", "owner")
    first_org.ok("PATCH", "/users/admin", json={"disabled": True})
    refused = first_org.call("POST", "/auth/login-codes", json={"user": "admin", "role": "owner"})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    exchanged = requests.post(
        f"{first_org.url}/auth/login", json={"token": first_org.admin_token}, timeout=30
    )
    assert (exchanged.status_code, "admin is disabled" in exchanged.json()["error"]) == (401, True)


def test_an_organisation_is_made_shown_and_renamed(first_org: Platform) -> None:
    made = first_org.call("POST", "/orgs", json={"name": "Acme & Sons"})
    org = made.json()
    assert (made.status_code, org["slug"], org["name"]) == (201, "acme-sons", "Acme & Sons")
    assert org.keys() == {"id", "slug", "name", "created_at"}
    again = first_org.call("POST", "/orgs", json={"name": "Other", "slug": "acme-sons"})
    assert (again.status_code, again.json()["code"]) == (409, "already-exists")
    renamed = first_org.ok("PATCH", f"/orgs/{org['id']}", json={"slug": "acme"})
    assert first_org.ok("GET", "/orgs/acme") == renamed == org | {"slug": "acme"}
    assert [row["slug"] for row in first_org.ok("GET", "/orgs")] == ["acme", "default"]


def test_from_inside_an_organisation_can_be_read_and_not_changed(first_org: Platform) -> None:
    first_org.ok("POST", "/orgs", json={"name": "Acme"})
    browser = browser_of(first_org, "ann", "owner", org_id="acme")
    assert [row["slug"] for row in browser.get(f"{first_org.url}/orgs", timeout=30).json()] == ["acme"]
    for method, path in (("POST", "/orgs"), ("PATCH", "/orgs/acme")):
        answer = browser.request(method, first_org.url + path, json={"name": "Mine"}, timeout=30)
        assert (answer.status_code, answer.json()["required"]) == (403, ["admin"])


def test_the_first_organisation_is_still_the_administrator_s_after_a_new_name_and_a_restart(
    restarting: Start,
) -> None:
    before = restarting()
    platform_id = before.ok("GET", "/orgs/default")["id"]
    before.ok("PATCH", "/orgs/default", json={"slug": "home", "name": "Home"})
    before.stop()
    after = replace(restarting(), org="home")
    assert [row["slug"] for row in after.ok("GET", "/orgs")] == ["home"]
    assert after.ok("GET", "/auth/session")["org_id"] == platform_id


@pytest.mark.both_engines
@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_change_on_one_replica_ends_sessions_and_streams_on_the_other(replicated: Start) -> None:
    here, there = replicated(), replicated()
    browser = browser_of(here, "ann", "member")
    cookies = {"molecule_session": next(iter(browser.cookies.values()))}

    def signed_in() -> bool:
        return requests.get(f"{there.url}/auth/session", cookies=cookies, timeout=30).status_code == 200

    assert signed_in()
    headers = {"Cookie": f"molecule_session={cookies['molecule_session']}", "Origin": there.url}
    with connect(there.url.replace("http", "ws") + "/ws", additional_headers=headers) as socket:
        here.ok("PATCH", "/users/ann", json={"disabled": True})
        changed = time.monotonic()
        with pytest.raises(ConnectionClosed):
            list(socket)
        while signed_in():
            assert time.monotonic() - changed < SOON_SECONDS
        assert (socket.close_code, time.monotonic() - changed < SOON_SECONDS) == (4009, True)
