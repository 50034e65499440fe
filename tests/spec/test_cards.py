"""The card of an agent, as the official client fetches, checks and uses it."""

import asyncio
import threading
from typing import Any

import httpx
import jwt
import pytest
import requests
from a2a.client import A2ACardResolver
from a2a.types import AgentCard
from a2a.utils import signing

from molecule_platform.services.cards import card_service
from tests.spec.platforms import Platform, Start
from tests.spec.streams import frames, listen


def fetched(platform: Platform, workspace_id: str, token: str = "", version: str = "") -> AgentCard:
    """The card, by the official resolver, which raises unless a signature of the platform is valid."""
    document = platform.ok("GET", "/.well-known/jwks.json", "")
    keys = {key["kid"]: jwt.PyJWK(key) for key in document["keys"]}
    verify = signing.create_signature_verifier(lambda kid, _jku: keys[kid or ""], ["ES256"])
    headers = platform.headers(token)
    headers |= {"A2A-Version": version} if version else {}

    async def ask() -> AgentCard:
        async with httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as client:
            resolver = A2ACardResolver(client, f"{platform.url}/agents/{workspace_id}")
            return await resolver.get_agent_card(signature_verifier=verify)

    return asyncio.run(ask())


@pytest.mark.parametrize("version", ["", "1.0"])
def test_the_official_client_verifies_the_card_and_finds_the_gateway_in_it(
    platform: Platform, version: str
) -> None:
    client = platform.join("reader")
    card = fetched(platform, client.workspace_id, platform.admin_token, version)
    assert card.name == "reader"
    assert {one.url for one in card.supported_interfaces} == {f"{platform.url}/agents/{client.workspace_id}"}
    assert card.capabilities.streaming
    assert card.security_schemes["molecule"].http_auth_security_scheme.scheme == "Bearer"


def test_a_public_card_needs_no_credential_and_follows_what_the_agent_registers(platform: Platform) -> None:
    client = platform.join("speaker", visibility="public")
    assert fetched(platform, client.workspace_id).description == "speaker"
    client.agent_card = {"name": "speaker", "description": "Speaks", "skills": ["talk"]}
    body = {"workspace_id": client.workspace_id, "agent_card": client.agent_card}
    platform.ok("POST", "/registry/update-card", client.load_token(), json=body)
    described = fetched(platform, client.workspace_id)
    assert (described.description, described.skills[0].id) == ("Speaks", "talk")


def test_a_card_asks_for_a_credential_and_refuses_one_that_the_tree_does_not_let_through(
    platform: Platform,
) -> None:
    lead = platform.create("lead")
    low = platform.create("low", lead["id"], claimable=False)
    card = f"/agents/{low['id']}/.well-known/agent-card.json"
    stranger = platform.create("stranger", platform.create("other lead")["id"])["connection"]["auth_token"]
    assert platform.call("GET", card, "").status_code == 401
    refused = platform.call("GET", card, stranger)
    assert (refused.status_code, refused.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert platform.call("GET", card, lead["connection"]["auth_token"]).status_code == 200


@pytest.fixture
def never_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was seen of a card counts until its bell rings."""
    monkeypatch.setattr(card_service, "FRESH_SECONDS", 3600.0)


def read(platform: Platform, workspace_id: str, token: str = "") -> requests.Response:
    """The card, or the refusal, as it is now."""
    return platform.call("GET", f"/agents/{workspace_id}/.well-known/agent-card.json", token)


@pytest.mark.usefixtures("never_forgets")
def test_the_very_next_reader_sees_every_change_of_a_card(platform: Platform) -> None:
    client = platform.join("speaker", visibility="public")
    workspace_id, token = client.workspace_id, client.load_token()
    assert read(platform, workspace_id).json()["name"] == "speaker"
    body: dict[str, Any] = {"workspace_id": workspace_id, "agent_card": {"description": "Updated"}}
    platform.ok("POST", "/registry/update-card", token, json=body)
    assert read(platform, workspace_id).json()["description"] == "Updated"
    client.agent_card = {"description": "Registered"}
    client.register()
    assert read(platform, workspace_id).json()["description"] == "Registered"
    platform.ok("PATCH", f"/workspaces/{workspace_id}", json={"name": "talker"})
    assert read(platform, workspace_id).json()["name"] == "talker"
    platform.ok("PATCH", f"/workspaces/{workspace_id}", json={"visibility": "private"})
    assert read(platform, workspace_id).status_code == 401
    assert read(platform, workspace_id, platform.admin_token).status_code == 200
    platform.ok("DELETE", f"/workspaces/{workspace_id}?confirm=true")
    assert read(platform, workspace_id, platform.admin_token).status_code == 410


@pytest.mark.usefixtures("never_forgets")
def test_whoever_reads_the_card_upon_its_event_gets_the_new_one(platform: Platform) -> None:
    client = platform.join("speaker", visibility="public")
    with listen(platform) as socket:
        for number in range(10):
            assert read(platform, client.workspace_id).status_code == 200
            client.agent_card = {"name": "speaker", "description": f"Number {number}"}
            registering = threading.Thread(target=client.register)
            registering.start()
            told = frames(socket, "AGENT_CARD_UPDATED")[-1]["payload"]
            seen = read(platform, client.workspace_id).json()
            registering.join()
            assert told["agent_card"] == client.agent_card
            assert seen["description"] == f"Number {number}"


def test_the_addresses_in_a_card_are_those_that_the_operator_names(configured: Start) -> None:
    platform = configured(EXTERNAL_PLATFORM_URL="https://agents.example/molecule/")
    workspace_id = platform.create("behind a proxy", visibility="public", claimable=False)["id"]
    card = fetched(platform, workspace_id)
    base = "https://agents.example/molecule"
    assert {one.url for one in card.supported_interfaces} == {f"{base}/agents/{workspace_id}"}
    header = jwt.get_unverified_header(f"{card.signatures[0].protected}.e30.e30")
    assert header["jku"] == f"{base}/.well-known/jwks.json"


def test_serving_a_card_asks_nothing_of_the_agent(platform: Platform) -> None:
    client = platform.join("absent", visibility="public")
    body = {"id": client.workspace_id, "url": "http://127.0.0.1:1/", "agent_card": {"name": "absent"}}
    platform.ok("POST", "/registry/register", client.load_token(), json=body)
    answer = requests.head(
        f"{platform.url}/agents/{client.workspace_id}/.well-known/agent-card.json", timeout=30
    )
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 0
