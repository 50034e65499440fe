"""Why may A not call B: the tree explains itself, and grants add an edge for a while."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from molecule_agent import RemoteAgentClient, errors
from molecule_wire import times
from tests.spec.platforms import Platform

Strangers = tuple[RemoteAgentClient, RemoteAgentClient]


@pytest.fixture
def strangers(platform: Platform) -> Strangers:
    """Two agents below different roots."""
    left, right = platform.join("left-root"), platform.join("right-root")
    return platform.join("ann", left.workspace_id), platform.join("bob", right.workspace_id)


def grant(
    platform: Platform, one: RemoteAgentClient, other: RemoteAgentClient, **more: Any
) -> dict[str, Any]:
    body = {
        "from": one.workspace_id,
        "to": other.workspace_id,
        "expires_at": times.format_time(datetime.now(UTC) + timedelta(days=1)),
        "reason": "a test",
    }
    return platform.ok("POST", "/access/grants", json=body | more)


def explain(platform: Platform, caller: str, target: str, token: str | None = None) -> dict[str, Any]:
    return platform.ok("GET", f"/access/explain?caller={caller}&target={target}", token)


def test_a_refusal_is_explained_rule_by_rule(platform: Platform, strangers: Strangers) -> None:
    ann, bob = strangers
    why = explain(platform, ann.workspace_id, bob.workspace_id)
    assert (why["allowed"], why["rule"], why["common_ancestor"]) == (False, "denied", None)
    assert "different parents" in why["reason"]
    assert why["caller"] == {"id": ann.workspace_id, "name": "ann", "path": ["left-root", "ann"]}
    assert [step["rule"] for step in why["checked"]] == [
        "removed",
        "org",
        "self",
        "isolated",
        "sibling",
        "ancestor",
        "descendant",
        "grant",
        "denied",
    ]
    assert [remedy["kind"] for remedy in why["remedies"]] == ["grant", "move"]


@pytest.mark.unheld
def test_a_grant_opens_the_way_and_its_end_closes_it(platform: Platform, strangers: Strangers) -> None:
    ann, bob = strangers
    with pytest.raises(errors.AccessDeniedError):
        ann.call_peer(bob.workspace_id, "hi", prefer_direct=False)
    given = grant(platform, *strangers)
    assert given["created_by"] == "user:admin"
    assert ann.call_peer(bob.workspace_id, "hi", prefer_direct=False)["queued"] is True
    assert {peer.name for peer in ann.get_peers()} == {"left-root", "bob"}
    assert explain(platform, ann.workspace_id, bob.workspace_id)["rule"] == "grant"
    with pytest.raises(errors.AccessDeniedError):
        bob.call_peer(ann.workspace_id, "hi", prefer_direct=False)
    assert [row["id"] for row in platform.ok("GET", "/access/grants")] == [given["id"]]
    assert platform.ok("DELETE", f"/access/grants/{given['id']}") == {"status": "revoked"}
    assert platform.call("DELETE", f"/access/grants/{given['id']}").status_code == 404
    with pytest.raises(errors.AccessDeniedError):
        ann.call_peer(bob.workspace_id, "hi again", prefer_direct=False)
    kinds = [row["event_type"] for row in platform.ok("GET", "/events?type=ACCESS_GRANTED,ACCESS_REVOKED")]
    assert kinds == ["ACCESS_REVOKED", "ACCESS_GRANTED"]


@pytest.mark.unheld
def test_a_grant_may_run_both_ways(platform: Platform, strangers: Strangers) -> None:
    ann, bob = strangers
    grant(platform, *strangers, bidirectional=True)
    assert bob.call_peer(ann.workspace_id, "hi", prefer_direct=False)["queued"] is True


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("expires_at", "2020-01-01T00:00:00Z"),
        ("expires_at", "2999-01-01T00:00:00Z"),
        ("reason", " "),
        ("extra", 1),
    ],
)
def test_a_grant_without_end_or_reason_is_refused(
    platform: Platform, strangers: Strangers, field: str, value: object
) -> None:
    ann, bob = strangers
    body = {"from": ann.workspace_id, "to": bob.workspace_id, "reason": "x"}
    body["expires_at"] = times.format_time(datetime.now(UTC) + timedelta(days=1))
    answer = platform.call("POST", "/access/grants", json=body | {field: value})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")


def test_a_workspace_asks_only_about_its_own_calls(platform: Platform, strangers: Strangers) -> None:
    ann, bob = strangers
    assert explain(platform, ann.workspace_id, bob.workspace_id, ann.load_token())["allowed"] is False
    path = f"/access/explain?caller={bob.workspace_id}&target={ann.workspace_id}"
    assert platform.call("GET", path, token=ann.load_token()).status_code == 403
    assert platform.call("POST", "/access/grants", token=ann.load_token(), json={}).status_code == 403


def test_an_unknown_id_is_just_not_allowed(platform: Platform, strangers: Strangers) -> None:
    ann, _bob = strangers
    body = {"caller_id": ann.workspace_id, "target_id": "00000000-0000-4000-8000-000000000000"}
    verdict = platform.ok("POST", "/registry/check-access", json=body)
    assert (verdict["allowed"], verdict["rule"]) == (False, "denied")
    platform.ok("POST", "/auth/login-codes", json={"user": "olga", "role": "owner"})
    assert explain(platform, "user:olga", ann.workspace_id)["rule"] == "org-principal"
    assert explain(platform, "user:olga", "nonsense")["target"]["name"] == "unknown"
