"""Scopes imply one another, and a route's rules let in exactly those they name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import authorisation, errors, principals
from molecule_platform.domain.access import Verdict
from molecule_platform.domain.authorisation import (
    ANY,
    PUBLIC,
    Who,
    org_with,
    peer_with,
    self_with,
    workspace_with,
)
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal

words = st.sampled_from(["ws", "org", "send", "read", "secrets", "write", "admin", "workspace"])
scopes = st.lists(words, min_size=1, max_size=3).map(".".join)
REFUSED = Verdict(False, "denied", "they have different parents")
ALLOWED = Verdict(True, "sibling", "siblings")


def caller(text: str, *held: str) -> Principal:
    return Principal(text, "one", frozenset(held), "someone")


@given(scopes, scopes)
def test_a_scope_implies_itself_what_is_below_it_and_what_its_umbrella_covers(held: str, wanted: str) -> None:
    below = wanted == held or wanted.startswith(f"{held}.")
    umbrella = held == "workspace" and (wanted == "ws" or wanted.startswith("ws."))
    admin = held == "admin" and not wanted.startswith("ws.")
    assert principals.implies([held], wanted) == (below or umbrella or admin)


@given(st.lists(scopes), st.lists(scopes), scopes)
def test_more_scopes_never_allow_less(few: list[str], more: list[str], wanted: str) -> None:
    assert principals.implies(few + more, wanted) >= principals.implies(few, wanted)


def test_an_administrator_may_do_everything_but_what_belongs_to_a_workspace_itself() -> None:
    admin = caller("user:admin", "admin")
    assert admin.is_admin
    assert admin.may("org.write")
    assert not admin.may("ws.secrets.read")


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        ("viewer", "org.read", "org.send"),
        ("member", "org.approve", "org.write"),
        ("admin", "org.tokens", "org.impersonate"),
        ("owner", "org.impersonate", "admin"),
    ],
)
def test_each_role_reaches_so_far_and_no_further(role: str, may: str, may_not: str) -> None:
    assert principals.implies(principals.ROLE_SCOPES[role], may)
    assert not principals.implies(principals.ROLE_SCOPES[role], may_not)


def test_only_a_workspace_principal_names_a_workspace() -> None:
    assert caller(principals.workspace_principal("w1")).workspace_id == "w1"
    assert caller("user:workspace").workspace_id is None


@pytest.mark.parametrize(
    ("principal", "rules", "verdict", "by"),
    [
        (caller("workspace:w1"), (ANY,), None, ANY),
        (caller("user:ann"), (PUBLIC,), None, PUBLIC),
        (caller("workspace:w1", "workspace"), (self_with("ws.send"),), None, self_with("ws.send")),
        (caller("workspace:w2", "workspace"), (peer_with("ws.send"),), ALLOWED, peer_with("ws.send")),
        (caller("user:ann", "org"), (org_with("org.read"),), None, org_with("org.read")),
        (caller("workspace:w1"), (self_with(""), peer_with("")), None, self_with("")),
        (caller("workspace:w2", "workspace"), (workspace_with("ws.send"),), None, workspace_with("ws.send")),
    ],
)
def test_a_rule_that_fits_lets_in(
    principal: Principal, rules: tuple[Who, ...], verdict: Verdict | None, by: Who
) -> None:
    assert authorisation.permit(principal, rules, "w1", verdict) == by


@pytest.mark.parametrize(
    ("principal", "rules", "verdict", "code"),
    [
        (caller("workspace:w1"), (self_with("ws.send"),), None, "scope-required"),
        (caller("user:ann", "org.read"), (org_with("org.write"),), None, "scope-required"),
        (caller("workspace:w2", "workspace"), (self_with("ws.send"),), None, "forbidden"),
        (caller("workspace:w2", "workspace"), (peer_with("ws.send"),), REFUSED, "hierarchy-denied"),
        (caller("workspace:w1", "workspace"), (peer_with("ws.send"),), None, "forbidden"),
        (caller("workspace:w1", "workspace"), (org_with("org.read"),), None, "forbidden"),
        (caller("user:ann", "org"), (self_with("ws.secrets.read"),), None, "forbidden"),
        (caller("user:ann", "org"), (workspace_with("ws.send"),), None, "forbidden"),
    ],
)
def test_anything_else_is_refused_with_the_reason(
    principal: Principal, rules: tuple[Who, ...], verdict: Verdict | None, code: str
) -> None:
    with pytest.raises(ApiError) as refused:
        authorisation.permit(principal, rules, "w1", verdict)
    assert refused.value.code == code
    assert refused.value.status == 403


def test_a_missing_scope_is_named() -> None:
    with pytest.raises(ApiError) as refused:
        authorisation.permit(caller("user:ann"), (org_with("org.write"), org_with("org.read")), None, None)
    assert refused.value.extras["required"] == ["org.read", "org.write"]


def test_the_tree_s_refusal_says_where_it_is_explained() -> None:
    refusal = authorisation.hierarchy_denied(caller("workspace:w2"), "w1", REFUSED)
    assert refusal.extras == {
        "rule": "denied",
        "reason": "they have different parents",
        "explain_url": "/access/explain?caller=w2&target=w1",
    }


def test_a_rule_reads_as_the_contract_writes_it() -> None:
    assert [str(who) for who in (ANY, org_with("org.read"))] == ["any", "org(org.read)"]


def test_gone_workspaces_answer_404_and_410_with_what_to_do() -> None:
    assert errors.workspace_not_found("w1").status == 404
    gone = errors.workspace_removed("w1", "2026-05-02T12:00:00.000Z")
    assert gone.status == 410
    assert set(gone.extras) == {"id", "removed_at", "hint"}
