"""The card of an agent, as the official client fetches, checks and uses it."""

import asyncio
import time
from typing import Any

import httpx
import jwt
import pytest
import requests
from a2a.client import A2ACardResolver
from a2a.types import AgentCard
from a2a.utils import signing

from tests.spec.house import Platform, Start

PATIENCE_SECONDS = 15.0


def fetched(platform: Platform, workspace_id: str, token: str = "", version: str = "") -> AgentCard:
    """The card, by the official resolver, which raises unless a signature of the platform is valid."""
    document = platform.ok("GET", "/.well-known/jwks.json", "")
    keys = {key["kid"]: jwt.PyJWK(key) for key in document["keys"]}
    verify = signing.create_signature_verifier(lambda kid, _jku: keys[kid or ""], ["ES256"])
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"A2A-Version": version} if version else {}

    async def ask() -> AgentCard:
        async with httpx.AsyncClient(headers=headers, timeout=10, trust_env=False) as client:
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
    described = _eventually(platform, client.workspace_id, "Speaks")
    assert described["skills"][0]["id"] == "talk"


def _eventually(platform: Platform, workspace_id: str, description: str) -> dict[str, Any]:
    """The card once it says so: a change is seen within a second."""
    path = f"/agents/{workspace_id}/.well-known/agent-card.json"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        card: dict[str, Any] = platform.ok("GET", path, "")
        if card["description"] == description:
            return card
        assert time.monotonic() < deadline, "the new card was never shown"
        time.sleep(0.02)


def test_the_addresses_in_a_card_are_those_that_the_operator_names(start: Start) -> None:
    platform = start(EXTERNAL_PLATFORM_URL="https://agents.example/molecule/")
    workspace_id = platform.create("behind a proxy", visibility="public")["id"]
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
        f"{platform.url}/agents/{client.workspace_id}/.well-known/agent-card.json", timeout=5
    )
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 0
