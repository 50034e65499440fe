"""Bad input: a clear error of one shape, and nothing lost."""

import pytest
import requests

from tests.spec.platforms import Platform, Start


def shape(answer: requests.Response) -> tuple[int, str]:
    body = answer.json()
    assert isinstance(body["error"], str)
    assert body["request_id"] == answer.headers["X-Request-Id"]
    return answer.status_code, body["code"]


def test_a_body_that_is_not_json(platform: Platform) -> None:
    assert shape(platform.call("POST", "/workspaces", data=b"{not json")) == (400, "invalid-json")


def test_a_wrong_type_names_the_field(platform: Platform) -> None:
    answer = platform.call("POST", "/workspaces", json={"name": 5})
    assert shape(answer) == (400, "invalid-request")
    assert answer.json()["field"] == "name"


def test_a_missing_field_is_named(platform: Platform) -> None:
    answer = platform.call("POST", "/workspaces", json={})
    assert (shape(answer), answer.json()["field"]) == ((400, "invalid-request"), "name")


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, "a{b}"])
def test_a_bad_name_is_refused(platform: Platform, name: str) -> None:
    assert shape(platform.call("POST", "/workspaces", json={"name": name})) == (400, "invalid-request")


def test_an_unknown_id_and_a_malformed_one(platform: Platform) -> None:
    assert shape(platform.call("GET", "/workspaces/00000000-0000-4000-8000-000000000000")) == (
        404,
        "workspace-not-found",
    )
    assert shape(platform.call("GET", "/workspaces/not-an-id")) == (400, "invalid-id")


def test_a_missing_and_a_wrong_token(platform: Platform) -> None:
    missing = platform.call("GET", "/workspaces", token="")
    assert shape(missing) == (401, "unauthenticated")
    assert missing.headers["WWW-Authenticate"].startswith("Bearer")
    assert shape(platform.call("GET", "/workspaces", token="wrong")) == (401, "invalid-token")


def test_a_route_that_does_not_exist_and_a_method_that_is_not_served(platform: Platform) -> None:
    assert shape(platform.call("GET", "/nowhere")) == (404, "not-found")
    assert shape(platform.call("PUT", "/workspaces")) == (405, "method-not-allowed")


def test_a_body_over_the_limit(configured: Start) -> None:
    platform = configured(MOLECULE_MAX_BODY_BYTES=2000)
    answer = platform.call("POST", "/workspaces", json={"name": "x" * 3000})
    assert shape(answer) == (413, "payload-too-large")
    assert answer.json()["limit_bytes"] == 2000


def test_a_trailing_slash_is_the_same_route(platform: Platform) -> None:
    assert platform.call("GET", "/workspaces/").status_code == 200


def test_a_given_request_id_is_kept(platform: Platform) -> None:
    answer = platform.call("GET", "/health", headers={"X-Request-Id": "abc-1"})
    assert answer.headers["X-Request-Id"] == "abc-1"


def test_jsonrpc_callers_get_an_error_object(platform: Platform) -> None:
    client = platform.join("a")
    path = f"/workspaces/{client.workspace_id}/a2a"
    answer = platform.call("POST", path, data=b"{")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)
    answer = platform.call("POST", path, token="", json={})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    answer = platform.call("POST", path, json={"id": 1, "method": "no/such", "params": {}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, -32601)
    unknown = "/workspaces/00000000-0000-4000-8000-000000000000/a2a"
    answer = platform.call(
        "POST", unknown, json={"method": "message/send", "params": {"message": {"parts": [{"text": "x"}]}}}
    )
    assert (answer.status_code, answer.json()["code"]) == (404, "workspace-not-found")


def test_a_full_mailbox_says_when_to_come_back(configured: Start) -> None:
    platform = configured(MAILBOX_MAX_OPEN=2, MOLECULE_A2A_HOLD_SECONDS=0)
    client = platform.join("a")
    for words in ("one", "two"):
        assert platform.send(client.workspace_id, words).status_code == 200
    answer = platform.send(client.workspace_id, "three")
    assert (answer.status_code, answer.json()["code"]) == (503, "mailbox-full")
    assert int(answer.headers["Retry-After"]) == answer.json()["retry_after"]


def test_every_answer_carries_the_security_headers(platform: Platform) -> None:
    for path in ("/health", "/", "/nowhere"):
        headers = platform.call("GET", path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert "default-src" in headers["Content-Security-Policy"]
