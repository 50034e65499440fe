"""A workspace that can be claimed is proved by its id: for anyone who could gain by it there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from molecule_platform.web.pipeline.route_table import TABLE
from molecule_wire import times

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Answer, Visitor

# Those who may do all but what makes an operator of them.
OTHER_SCOPES = (
    ["org.read"],
    ["org.read", "org.send", "org.approve"],
    ["org.read", "org.tokens", "org.impersonate"],
    ["org.read", "org.secrets", "org.audit", "metrics.read"],
    # An operator, who would read by a claim what it may not know.
    ["org.read", "org.send", "org.approve", "org.write", "org.tokens", "org.impersonate", "org.audit"],
)
STRANGERS: dict[str, str | None] = {"nobody": None, "a wrong token": "x" * 43}
READS = [
    route.path for route in TABLE if route.method == "GET" and not route.stream and route.path not in ("/ws",)
]
SENDS = {
    "/workspaces/{id}/a2a": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "message/send",
        "params": {"message": {"role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "hi"}]}},
    },
    "/registry/check-access": {},
    "/workspaces/{id}/tokens": {},
    "/workspaces/{id}/enrolment-tokens": {},
    "/workspaces/{id}/wake": {},
    "/workspaces/{id}/pause": {},
    "/workspaces/{id}/secrets": {"key": "K", "value": "v"},
    "/workspaces/{id}/delegate": {"task": "t"},
}


@dataclass
class Claimable:
    """A workspace that nobody has joined, with all that others could notice of it."""

    id: str
    token: str
    message_id: str
    # Those who can be seen around it: its parent, a child, a sibling.
    neighbours: dict[str, tuple[str, str]]
    others: dict[str, str | None]

    def asked(self, path: str, about: str) -> str:
        filled = path.replace("{id}", about).replace("{message_id}", self.message_id)
        filled = re.sub(r"\{\w+\}", "name", filled)
        if path == "/access/explain":
            return f"{filled}?caller={self.neighbours['sibling'][0]}&target={about}"
        return filled


@pytest.fixture
async def claimable(visit: Visitor) -> Claimable:
    parent = await visit.agent("Parent")
    made = (
        await visit(
            "POST",
            "/workspaces",
            {"name": "Unjoined", "external": True, "parent_id": parent[0], "visibility": "public"},
        )
    ).json
    workspace_id = made["id"]
    child = await visit.workspace("Child", parent_id=workspace_id)
    sibling = await visit.workspace("Sibling", parent_id=parent[0])
    neighbours = {"parent": parent, "child": child, "sibling": sibling}
    others: dict[str, str | None] = {name: token for name, (_id, token) in neighbours.items()}
    for scopes in OTHER_SCOPES:
        minted = await visit("POST", "/org/tokens", {"scopes": scopes})
        others[" ".join(scopes)] = minted.json["auth_token"]
    for token in filter(None, others.values()):
        assert (await visit("GET", "/version", token=token)).status == 200
    body = {"key": "K", "value": "v"}
    assert (await visit("POST", f"/workspaces/{workspace_id}/secrets", body)).status == 200
    sent = await visit(
        "POST",
        f"/workspaces/{workspace_id}/a2a",
        SENDS["/workspaces/{id}/a2a"],
        headers={"prefer": "respond-async"},
    )
    expires_at = times.format_time(datetime.now(UTC) + timedelta(days=1))
    grant = {"from": sibling[0], "to": workspace_id, "expires_at": expires_at, "reason": "a test"}
    assert (await visit("POST", "/access/grants", grant)).status == 201
    assert (await visit("POST", f"/workspaces/{workspace_id}/pause")).status == 200
    return Claimable(
        workspace_id, made["connection"]["auth_token"], sent.json["message_id"], neighbours, others
    )


def plain(answer: Answer, about: str) -> tuple[int, str, list[str]]:
    """An answer without what is new in each."""
    said = answer.raw.decode().replace(about, "<id>")
    return answer.status, re.sub(r'"request_id":"[^"]*"', "", said), sorted(answer.headers)


async def test_no_answer_shows_it_to_anyone_who_could_gain_by_a_claim(
    visit: Visitor, claimable: Claimable
) -> None:
    for whose, token in (claimable.others | STRANGERS).items():
        for path in READS:
            for about, _token in claimable.neighbours.values():
                asked = claimable.asked(path, about)
                answer = await visit("GET", asked, token=token)
                shown = answer.raw.decode() + str(answer.headers)
                assert claimable.id not in shown, (whose, asked)
                assert "Unjoined" not in shown, (whose, asked)


async def test_it_is_to_them_what_an_unknown_id_is(visit: Visitor, claimable: Claimable) -> None:
    unknown = str(uuid4())
    for whose, token in (claimable.others | STRANGERS).items():
        for method, paths in (("GET", READS), ("POST", SENDS)):
            for path in filter(_names_a_workspace, paths):
                body = dict(SENDS[path]) if method == "POST" else None
                if path == "/registry/check-access" and body is not None:
                    body = {"caller_id": claimable.neighbours["sibling"][0]}
                answers: list[tuple[int, str, list[str]]] = []
                for about in (claimable.id, unknown):
                    more: dict[str, Any] = {"target_id": about} if path == "/registry/check-access" else {}
                    given = None if body is None else body | more
                    asked = claimable.asked(path, about).replace(claimable.message_id, "name")
                    answers.append(plain(await visit(method, asked, given, token=token), about))
                assert answers[0] == answers[1], (whose, method, path)


def _names_a_workspace(path: str) -> bool:
    return "{id}" in path or path in ("/access/explain", "/registry/check-access")


async def test_nobody_acts_as_it_without_org_write(visit: Visitor, claimable: Claimable) -> None:
    token = claimable.others["org.read org.tokens org.impersonate"]
    for named in (claimable.id, str(uuid4())):
        answer = await visit("GET", "/workspaces", token=token, headers={"x-workspace-id": named})
        assert (answer.status, answer.code) == (404, "workspace-not-found")


async def test_nobody_finds_it_by_its_message_either(visit: Visitor, claimable: Claimable) -> None:
    for path in ("/messages/{}", "/messages/{}/tree", "/messages/{}/events"):
        for scopes in OTHER_SCOPES:
            answer = await visit(
                "GET", path.format(claimable.message_id), token=claimable.others[" ".join(scopes)]
            )
            assert (answer.status, answer.code) == (404, "message-not-found")
    assert (await visit("GET", f"/messages/{claimable.message_id}")).status == 200


async def test_operators_see_it_everywhere(visit: Visitor, claimable: Claimable) -> None:
    scopes = ["org.read", "org.write", "org.secrets"]
    operator = (await visit("POST", "/org/tokens", {"scopes": scopes})).json["auth_token"]
    for token in ("the-administrator-s-token", operator):
        rows = (await visit("GET", "/workspaces", token=token)).json
        assert claimable.id in {row["id"] for row in rows}
        peers = await visit("GET", f"/registry/{claimable.neighbours['sibling'][0]}/peers", token=token)
        assert claimable.id in {row["id"] for row in peers.json}
        told = (await visit("GET", "/events", token=token)).raw.decode()
        assert claimable.id in told
        child = claimable.neighbours["child"][0]
        assert (await visit("GET", f"/workspaces/{child}", token=token)).json["parent_id"] == claimable.id


async def test_what_reads_no_secrets_is_seen_and_claimed_by_operators_without_secrets(visit: Visitor) -> None:
    scopes = ["org.read", "org.write"]
    minted = [await visit("POST", "/org/tokens", {"scopes": scopes}) for _ in range(2)]
    maker, other = (one.json["auth_token"] for one in minted)
    assert (await visit("POST", "/settings/secrets", {"key": "K", "value": "v"})).status == 200
    made = (await visit("POST", "/workspaces", {"name": "Theirs", "external": True}, token=maker)).json
    for token in (maker, other):
        assert made["id"] in {row["id"] for row in (await visit("GET", "/workspaces", token=token)).json}
    card = {"id": made["id"], "agent_card": {"name": "Theirs"}}
    came = (await visit("POST", "/registry/register", card, token=None)).json
    values = await visit("GET", f"/workspaces/{made['id']}/secrets/values", token=came["auth_token"])
    assert (values.status, values.code) == (403, "scope-required")
    assert (await visit("GET", f"/workspaces/{made['id']}", token=came["auth_token"])).status == 200


async def test_what_a_removal_or_a_grant_names_does_not_show_it(visit: Visitor, claimable: Claimable) -> None:
    token = claimable.others[" ".join(OTHER_SCOPES[-1])]
    refused = await visit("DELETE", f"/workspaces/{claimable.neighbours['parent'][0]}", token=token)
    assert (refused.status, refused.json["children_count"]) == (409, 3)
    assert {one["name"] for one in refused.json["children"]} == {"Child", "Sibling"}
    assert claimable.id not in refused.raw.decode()
    assert (await visit("GET", "/access/grants", token=token)).json == []
    assert len((await visit("GET", "/access/grants")).json) == 1


async def test_its_place_in_the_tree_is_explained_without_naming_it(
    visit: Visitor, claimable: Claimable
) -> None:
    child, token = claimable.neighbours["child"]
    twin, _ = await visit.workspace("Twin", parent_id=claimable.id)
    explained = (await visit("GET", f"/access/explain?caller={child}&target={twin}", token=token)).json
    assert (explained["allowed"], explained["rule"], explained["common_ancestor"]) == (True, "sibling", None)
    assert explained["caller"]["path"] == ["Parent", "Child"]
    assert (await visit("GET", f"/workspaces/{child}", token=token)).json["parent_id"] is None


async def test_a_claim_ends_every_other_way_in_and_is_told_to_operators(
    visit: Visitor, claimable: Claimable
) -> None:
    enrolment = (await visit("POST", f"/workspaces/{claimable.id}/enrolment-tokens", {})).json
    reader = claimable.others["org.read"]
    card = {"id": claimable.id, "agent_card": {"name": "Unjoined"}}
    came = await visit("POST", "/registry/register", card, token=None)
    assert (came.status, len(came.json["auth_token"])) == (200, 43)
    ended = await visit("GET", f"/workspaces/{claimable.id}/state", token=claimable.token)
    assert (ended.status, ended.code) == (401, "token-revoked")
    late = card | {"enrolment_token": enrolment["enrolment_token"]}
    assert (await visit("POST", "/registry/register", late, token=None)).code == "enrolment-invalid"
    told = (await visit("GET", f"/events/{claimable.id}?type=WORKSPACE_CLAIMED")).json
    assert [event["payload"]["prefix"] for event in told] == [came.json["auth_token"][:8]]
    assert set(told[0]["payload"]) == {"token_id", "prefix", "client_address"}
    # From now on it is there for all, but from where it was claimed is the operators' business.
    assert (await visit("GET", f"/workspaces/{claimable.id}", token=reader)).status == 200
    seen = (await visit("GET", f"/events/{claimable.id}", token=reader)).json
    assert "WORKSPACE_AWAITING_AGENT" in {event["event_type"] for event in seen}
    assert "WORKSPACE_CLAIMED" not in {event["event_type"] for event in seen}
    values = await visit("GET", f"/workspaces/{claimable.id}/secrets/values", token=came.json["auth_token"])
    assert values.json == {"K": "v"}


async def test_the_first_use_of_its_token_ends_the_time_for_claims(
    visit: Visitor, claimable: Claimable
) -> None:
    beat = {"workspace_id": claimable.id}
    assert (await visit("POST", "/registry/heartbeat", beat, token=claimable.token)).status == 200
    card = {"id": claimable.id, "agent_card": {"name": "Unjoined"}}
    late = await visit("POST", "/registry/register", card, token=None)
    assert (late.status, late.json["applied"], "auth_token" in late.json) == (200, False, False)
    for token in claimable.others.values():
        shown = await visit("GET", f"/registry/discover/{claimable.id}", token=token)
        assert shown.status in (200, 403)


async def test_what_an_operator_lets_act_can_no_longer_be_claimed(
    visit: Visitor, claimable: Claimable
) -> None:
    sibling = claimable.neighbours["sibling"][0]
    body = {"target_id": claimable.id, "task": "a task"}
    assert (await visit("POST", f"/workspaces/{sibling}/delegations", body)).status == 202
    card = {"id": claimable.id, "agent_card": {"name": "Unjoined"}}
    late = await visit("POST", "/registry/register", card, token=None)
    assert (late.status, late.code) == (401, "unauthenticated")
    assert (await visit("POST", "/registry/register", card, token=claimable.token)).status == 200


async def test_one_that_is_not_claimable_is_shown_as_any_other(visit: Visitor) -> None:
    shown, _ = await visit.workspace("Shown")
    reader = (await visit("POST", "/org/tokens", {"scopes": ["org.read"]})).json["auth_token"]
    assert (await visit("GET", f"/workspaces/{shown}", token=reader)).status == 200
    card = {"id": shown, "agent_card": {"name": "Shown"}}
    assert (await visit("POST", "/registry/register", card, token=None)).code == "unauthenticated"
