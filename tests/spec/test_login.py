"""Signing in by a one-time link, and what a browser may do with it."""

import requests

from tests.spec.platforms import Platform


def sign_in(platform: Platform) -> tuple[requests.Session, requests.Response, str]:
    link = platform.ok("POST", "/auth/login-codes", json={"user": "ada", "role": "owner"})["url"]
    code = link.partition("code=")[2]
    browser = requests.Session()
    answer = browser.post(f"{platform.url}/auth/login", json={"code": code}, timeout=30)
    return browser, answer, code


def test_a_link_signs_in_once(platform: Platform) -> None:
    browser, answer, code = sign_in(platform)
    assert answer.status_code == 200
    assert (answer.json()["user"], answer.json()["role"]) == ("ada", "owner")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    again = requests.post(f"{platform.url}/auth/login", json={"code": code}, timeout=30)
    assert again.status_code == 401
    assert "molecule login-url" in again.json()["error"]
    session = browser.get(f"{platform.url}/auth/session", timeout=30).json()
    assert session["principal"] == "user:ada"
    assert session["csrf_token"] == answer.json()["csrf_token"]


def test_opening_the_link_does_not_spend_it(platform: Platform) -> None:
    link = platform.ok("POST", "/auth/login-codes", json={"user": "ada", "role": "owner"})["url"]
    assert requests.get(link, timeout=30).status_code == 200
    code = link.partition("code=")[2]
    assert requests.post(f"{platform.url}/auth/login", json={"code": code}, timeout=30).status_code == 200


def test_a_change_needs_the_csrf_token_and_our_own_page(platform: Platform) -> None:
    browser, answer, _code = sign_in(platform)
    path, csrf = f"{platform.url}/workspaces", answer.json()["csrf_token"]
    body = {"name": "x", "runtime": "external"}
    assert browser.get(path, timeout=30).status_code == 200
    assert browser.post(path, json=body, timeout=30).json()["code"] == "csrf"
    foreign = {"X-CSRF-Token": csrf, "Origin": "https://elsewhere.example"}
    assert browser.post(path, json=body, headers=foreign, timeout=30).json()["code"] == "csrf"
    own = {"X-CSRF-Token": csrf, "Origin": platform.url}
    assert browser.post(path, json=body, headers=own, timeout=30).status_code == 201


def test_signing_out_ends_the_session(platform: Platform) -> None:
    browser, answer, _code = sign_in(platform)
    cookie = next(iter(browser.cookies.values()))
    headers = {"X-CSRF-Token": answer.json()["csrf_token"], "Origin": platform.url}
    assert browser.post(f"{platform.url}/auth/logout", headers=headers, timeout=30).status_code == 204
    old = requests.get(f"{platform.url}/auth/session", cookies={"molecule_session": cookie}, timeout=30)
    assert old.json()["code"] == "token-revoked"


def test_the_admin_token_can_be_exchanged_for_a_session(platform: Platform) -> None:
    answer = requests.post(f"{platform.url}/auth/login", json={"token": platform.admin_token}, timeout=30)
    assert answer.status_code == 200
    client = platform.join("a")
    refused = requests.post(f"{platform.url}/auth/login", json={"token": client.load_token()}, timeout=30)
    assert refused.status_code == 403


def test_a_viewer_may_look_and_not_touch(platform: Platform) -> None:
    link = platform.ok("POST", "/auth/login-codes", json={"user": "eve", "role": "viewer"})["url"]
    browser = requests.Session()
    code = link.partition("code=")[2]
    csrf = browser.post(f"{platform.url}/auth/login", json={"code": code}, timeout=30).json()["csrf_token"]
    headers = {"X-CSRF-Token": csrf, "Origin": platform.url}
    assert browser.get(f"{platform.url}/workspaces", timeout=30).status_code == 200
    answer = browser.post(f"{platform.url}/workspaces", json={"name": "x"}, headers=headers, timeout=30)
    assert (answer.status_code, answer.json()["required"]) == (403, ["org.write"])
