"""The doors of cards: the form that is asked for, copies that may be kept, and who gets nothing."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Visitor

NOBODY = "11111111-1111-4111-8111-111111111111"
SIGNED = {"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "c2lnbmVk", "header": {"own": 1}}
WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")


async def public(visit: Visitor, **card: Any) -> str:
    """A public workspace whose agent has registered."""
    workspace_id, token = await visit.workspace("Ada", visibility="public")
    body = {"id": workspace_id, "agent_card": {"name": "Ada", **card}}
    assert (await visit("POST", "/registry/register", body, token=token)).status == 200
    return workspace_id


@pytest.mark.parametrize("path", [*WELL_KNOWN, *(f"{path}/" for path in WELL_KNOWN)])
async def test_a_public_card_is_served_to_everybody_and_may_be_kept_a_minute(
    visit: Visitor, path: str
) -> None:
    ada = await public(visit)
    answer = await visit("GET", f"/agents/{ada}{path}", token=None)
    assert answer.status == 200
    assert answer.json["supportedInterfaces"][0]["url"] == f"http://platform/agents/{ada}"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "max-age=60"
    assert answer.headers["vary"] == "A2A-Version, Authorization"
    assert parsedate_to_datetime(answer.headers["last-modified"]).tzinfo is not None
    assert answer.headers["etag"].startswith('"')


@pytest.mark.parametrize(
    ("kept", "status"), [("{tag}", 304), ("W/{tag}", 304), ('"x", {tag}', 304), ("*", 304), ('"x"', 200)]
)
async def test_a_reader_whose_copy_is_right_gets_no_other(visit: Visitor, kept: str, status: int) -> None:
    ada = await public(visit)
    path = f"/agents/{ada}{WELL_KNOWN[0]}"
    first = await visit("GET", path, token=None)
    tag = first.headers["etag"]
    again = await visit("GET", path, token=None, headers={"if-none-match": kept.format(tag=tag)})
    assert (again.status, again.headers["etag"]) == (status, tag)
    assert again.raw == (b"" if status == 304 else first.raw)
    assert again.headers["cache-control"] == "max-age=60"


async def test_head_has_the_headers_of_the_card_and_no_body(visit: Visitor) -> None:
    ada = await public(visit)
    path = f"/agents/{ada}{WELL_KNOWN[0]}"
    full, head = await visit("GET", path, token=None), await visit("HEAD", path, token=None)
    assert (head.status, head.raw) == (200, b"")
    assert head.headers["etag"] == full.headers["etag"]
    assert head.headers["content-length"] == str(len(full.raw))


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        ("", {"supportedInterfaces", "url"}, set[str]()),
        ("1.0", {"supportedInterfaces"}, {"url", "protocolVersion", "security"}),
        ("1.0.1", {"supportedInterfaces"}, {"url"}),
        ("0.3", {"url", "security"}, {"supportedInterfaces", "securityRequirements"}),
    ],
)
@pytest.mark.parametrize("in_query", [False, True])
async def test_the_version_chooses_the_form(
    visit: Visitor, version: str, has: set[str], lacks: set[str], in_query: bool
) -> None:
    ada = await public(visit)
    query = f"?A2A-Version={version}" if in_query and version else ""
    headers = {"a2a-version": version} if version and not in_query else {}
    answer = await visit("GET", f"/agents/{ada}{WELL_KNOWN[0]}{query}", token=None, headers=headers)
    assert has <= set(answer.json)
    assert not lacks & set(answer.json)
    assert len(answer.json["signatures"]) == (1 if version else 2)


async def test_another_version_is_refused_as_the_protocol_says(visit: Visitor) -> None:
    ada = await public(visit)
    answer = await visit("GET", f"/agents/{ada}{WELL_KNOWN[0]}", token=None, headers={"a2a-version": "2.0"})
    assert answer.status == 400
    assert answer.json["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize("named", ["private", "unknown", "removed"])
async def test_nobody_learns_of_a_card_that_is_not_public(visit: Visitor, named: str) -> None:
    if named == "removed":
        workspace_id = await public(visit)
        assert (await visit("DELETE", f"/workspaces/{workspace_id}?confirm=true")).status < 300
    else:
        workspace_id = NOBODY if named == "unknown" else (await visit.agent())[0]
    answer = await visit("GET", f"/agents/{workspace_id}{WELL_KNOWN[0]}", token=None)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    [info] = answer.json["error"]["details"]
    assert (info["domain"], info["metadata"]["code"]) == ("molecule.ai", "unauthenticated")


async def test_a_private_card_is_for_those_the_tree_allows_and_never_for_shared_caches(
    visit: Visitor,
) -> None:
    ada, token = await visit.agent()
    for credential in (token, "the-administrator-s-token"):
        answer = await visit("GET", f"/agents/{ada}{WELL_KNOWN[0]}", token=credential)
        assert (answer.status, answer.headers["cache-control"]) == (200, "private, max-age=60")
    wrong = await visit("GET", f"/agents/{ada}{WELL_KNOWN[0]}", token="no-such-token")
    assert (wrong.status, wrong.json["error"]["status"]) == (401, "UNAUTHENTICATED")


async def test_a_browser_s_session_reads_a_private_card(visit: Visitor) -> None:
    ada, _token = await visit.agent()
    login = (await visit.platform.login_url("http://platform")).removeprefix("http://platform")
    entered = await visit("POST", "/auth/login", {"code": login.partition("code=")[2]}, token=None)
    cookie = entered.headers["set-cookie"].partition(";")[0]
    path = f"/agents/{ada}{WELL_KNOWN[0]}"
    assert (await visit("GET", path, token=None, headers={"cookie": cookie})).status == 200


async def test_a_new_card_is_served_at_once(visit: Visitor) -> None:
    ada = await public(visit)
    path = f"/agents/{ada}{WELL_KNOWN[0]}"
    before = await visit("GET", path, token=None)
    changed = {"workspace_id": ada, "agent_card": {"name": "Ada", "description": "Newer"}}
    token = (await visit("POST", f"/workspaces/{ada}/tokens", {})).json["auth_token"]
    assert (await visit("POST", "/registry/update-card", changed, token=token)).status == 200
    after = await visit("GET", path, token=None, headers={"if-none-match": before.headers["etag"]})
    assert (after.status, after.json["description"]) == (200, "Newer")


async def test_the_original_is_what_the_agent_registered(visit: Visitor) -> None:
    card = {"name": "Ada", "url": "http://own.example", "x": [1, False], "signatures": [SIGNED]}
    ada = await public(visit, **card)
    answer = await visit("GET", f"/agents/{ada}/.well-known/agent-card.original.json")
    assert (answer.json, answer.headers["cache-control"]) == (card, "private, max-age=60")
    assert (
        await visit("GET", f"/agents/{ada}/.well-known/agent-card.original.json", token=None)
    ).status == 401
    unregistered, _ = await visit.workspace("Newcomer")
    missing = await visit("GET", f"/agents/{unregistered}/.well-known/agent-card.original.json")
    assert missing.status == 404


# The extended card


@pytest.mark.parametrize(
    ("path", "version", "status"),
    [
        ("/extendedAgentCard", "1.0", 200),
        ("/extendedAgentCard/", "1.0", 200),
        ("/acme/extendedAgentCard", "1.0", 200),
        ("/extendedAgentCard", "", 400),
        ("/extendedAgentCard", "0.3", 404),
        ("/v1/card", "", 200),
        ("/v1/card", "0.3", 200),
        ("/v1/card", "1.0", 404),
    ],
)
async def test_the_extended_card_is_served_in_the_version_of_its_path(
    visit: Visitor, path: str, version: str, status: int
) -> None:
    ada = await public(visit)
    answer = await visit("GET", f"/agents/{ada}{path}", headers={"a2a-version": version})
    assert answer.status == status, answer.raw
    if status != 200:
        assert answer.json["error"]["details"][0]["domain"] == "a2a-protocol.org"
        return
    assert answer.headers["cache-control"] == "private, max-age=60"
    assert ("supportedInterfaces" in answer.json) == (path != "/v1/card")
    assert (await visit("GET", f"/agents/{ada}{path}", token=None)).status == 401


async def test_the_extended_card_is_written_as_its_reader_likes(visit: Visitor) -> None:
    ada = await public(visit)
    headers = {"a2a-version": "1.0", "accept": "application/a2a+json, application/json"}
    answer = await visit("GET", f"/agents/{ada}/extendedAgentCard", headers=headers)
    assert answer.headers["content-type"] == "application/a2a+json"


async def test_a_card_that_may_be_read_from_another_page_varies_with_it_too(visit: Visitor) -> None:
    ada = await public(visit)
    headers = {"origin": "https://page.example"}
    answer = await visit("GET", f"/agents/{ada}{WELL_KNOWN[0]}", token=None, headers=headers)
    assert answer.headers["vary"] == "A2A-Version, Authorization, Origin"


async def test_no_card_is_served_once_the_keys_are_lost_and_a_rotation_brings_it_back(
    breaking: Visitor,
) -> None:
    ada = await public(breaking)
    breaking.platform._services.keys._signers.clear()
    lost = await breaking("GET", f"/agents/{ada}{WELL_KNOWN[0]}", token=None)
    assert lost.status == 503
    assert "molecule key rotate" in lost.json["error"]["message"]
    assert (await breaking("POST", "/admin/keys/rotate")).json["status"] == "rotated"
    await breaking.platform._services.keys.refresh()
    assert (await breaking("GET", f"/agents/{ada}{WELL_KNOWN[0]}", token=None)).status == 200
