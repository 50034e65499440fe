"""Limits are per principal: ten agents behind one address are fine, one that hammers is told to wait."""

import pytest
import requests

from tests.spec.platforms import Platform, Start


@pytest.fixture
def limited(configured: Start, still_limits: None) -> Platform:
    """A house with the limits that operators get."""
    return configured(RATE_LIMIT=600, RATE_LIMIT_ANON=60)


def polled(platform: Platform, workspace_id: str, token: str) -> requests.Response:
    return platform.call("GET", f"/workspaces/{workspace_id}/activity?type=a2a_receive", token)


def test_ten_agents_behind_one_address_poll_without_a_refusal_and_one_that_hammers_is_refused(
    limited: Platform,
) -> None:
    """Trace T13."""
    agents = [limited.create(f"agent-{number}") for number in range(10)]
    tokens = [agent["connection"]["auth_token"] for agent in agents]
    for _ in range(70):
        for agent, token in zip(agents, tokens, strict=True):
            assert polled(limited, agent["id"], token).status_code == 200
    answers = (polled(limited, agents[0]["id"], tokens[0]) for _ in range(150))
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["code"] == "rate-limited"
    assert refused.json()["retry_after"] == int(refused.headers["Retry-After"]) >= 1
    assert polled(limited, agents[1]["id"], tokens[1]).status_code == 200


def test_every_answer_tells_what_is_left(limited: Platform) -> None:
    first, second = (limited.call("GET", "/workspaces").headers for _ in range(2))
    assert first["X-RateLimit-Limit"] == "600"
    assert int(second["X-RateLimit-Remaining"]) <= int(first["X-RateLimit-Remaining"]) < 150
    assert int(second["X-RateLimit-Reset"]) > 1_700_000_000


def test_guessing_tokens_is_slowed_down_by_address_and_health_is_never_limited(limited: Platform) -> None:
    codes = [limited.call("GET", "/workspaces", f"guess-{number}").json()["code"] for number in range(6)]
    assert codes == ["invalid-token"] * 3 + ["rate-limited"] * 3
    for path in ("/health", "/ready", "/"):
        assert limited.call("GET", path, "").status_code == 200
    assert limited.call("GET", "/workspaces").status_code == 200


def test_a_wrong_method_costs_as_much_as_a_wrong_path(limited: Platform) -> None:
    codes = [limited.call("DELETE", "/workspaces", "").json()["code"] for _ in range(16)]
    assert codes == ["method-not-allowed"] * 15 + ["rate-limited"]


def test_signing_in_and_minting_have_limits_of_their_own(limited: Platform) -> None:
    logins = [limited.call("POST", "/auth/login", "", json={"code": "x"}).status_code for _ in range(11)]
    assert logins == [401] * 10 + [429]
    mints = [limited.call("POST", "/org/tokens", json={"name": "ci"}) for _ in range(11)]
    assert [answer.status_code for answer in mints] == [200] * 10 + [429]
    assert 300 < mints[-1].json()["retry_after"] <= 360


def test_without_limits_no_answer_speaks_of_them(platform: Platform) -> None:
    headers = platform.call("GET", "/workspaces").headers
    assert not [name for name in headers if name.lower().startswith("x-ratelimit")]


def test_any_number_of_agents_behind_one_address_learn_that_they_were_removed(configured: Start) -> None:
    platform = configured(RATE_LIMIT=600, RATE_LIMIT_ANON=10)
    made = [platform.ok("POST", "/workspaces", json={"name": name, "external": True}) for name in ("a", "b")]
    removed, unclaimed = made[0]["id"], made[1]["id"]
    platform.ok("DELETE", f"/workspaces/{removed}")
    for workspace_id, token in ((removed, made[0]["connection"]["auth_token"]), (unclaimed, "")):
        path = f"/workspaces/{workspace_id}/state"
        answers = [platform.call("GET", path, token) for _ in range(30)]
        assert {answer.status_code for answer in answers} == {404}
        assert all(answer.json()["deleted"] for answer in answers)
