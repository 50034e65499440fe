"""What an agent is told of its caller: exactly the claims of the contract, signed, fresh for each attempt."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.keys import service_sealers, signing
from molecule_platform.keys.keyfile import load_keychain
from molecule_platform.services.keys.active_signers import ActiveSigners
from molecule_platform.services.keys.caller_assertions import CallerAssertions
from molecule_platform.services.keys.signing_keys import SigningKeyService
from molecule_platform.services.support.audit_log import AuditActor

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage, MakeWorkspace
    from packages.platform.tests.services.conftest import Rig

ISSUER = "https://agents.example"


class Maker:
    """Assertions of a platform, and its keys."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        ring = load_keychain(folder, None).ring
        self.rig = rig
        self.signing = SigningKeyService(
            rig.storage,
            rig.clock,
            signing.new_key,
            service_sealers.for_texts(ring),
            service_sealers.opens_signing(ring),
        )
        self.keys = ActiveSigners(
            rig.storage, rig.signals, rig.clock, rig.log, service_sealers.for_signing(ring)
        )
        self.assertions = CallerAssertions(self.keys, ISSUER)

    def sign(self, message: Message, target: Workspace) -> str:
        return self.assertions.sign(message, target, self.rig.clock.now())


@pytest.fixture
async def maker(rig: Rig, tmp_path: Path) -> Maker:
    made = Maker(rig, tmp_path)
    await made.signing.ensure()
    await made.keys.refresh()
    rig.clock.advance(1)
    return made


def raw(text: str) -> bytes:
    assert "=" not in text
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def read(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, claims, _ = token.split(".")
    return json.loads(raw(header)), json.loads(raw(claims))


async def test_the_claims_are_those_of_the_contract(
    maker: Maker, rig: Rig, make_message: MakeMessage, make_workspace: MakeWorkspace
) -> None:
    chain = {"id": "d1", "root": "d0", "depth": 2, "calls_left": 3, "chain": ["a", "b"]}
    message = make_message(caller="workspace:w1", caller_name="Zoë", delegation=chain)
    target = make_workspace()
    header, claims = read(maker.sign(message, target))
    assert header == {"alg": "EdDSA", "kid": maker.keys.signer("EdDSA").kid, "typ": "JWT"}
    now = int(rig.clock.now().timestamp())
    jti = claims.pop("jti")
    assert claims == {
        "iss": ISSUER,
        "sub": "workspace:w1",
        "aud": f"workspace:{target.id}",
        "iat": now,
        "nbf": now,
        "exp": now + 300,
        "org": message.org_id,
        "mid": message.message_ref,
        "row": message.id,
        "ctx": message.context_id,
        "delegation": chain,
        "name": "Zoë",
    }
    _, again = read(maker.sign(message, target))
    assert again["jti"] != jti
    assert read(maker.sign(make_message(), target))[1]["delegation"] is None


async def test_the_signature_is_good_and_a_rotation_changes_the_key(
    maker: Maker, rig: Rig, make_message: MakeMessage, make_workspace: MakeWorkspace
) -> None:
    message, target = make_message(), make_workspace()
    tokens = [maker.sign(message, target)]
    await maker.signing.rotate(AuditActor("user:admin", "r"), rig.org.id)
    rig.clock.advance(100)
    await maker.keys.refresh()
    tokens.append(maker.sign(message, target))
    document = await maker.signing.document(ISSUER)
    shown = {key["kid"]: raw(key["x"]) for key in document["keys"]}
    kids = [read(token)[0]["kid"] for token in tokens]
    assert kids[0] != kids[1]
    for kid, token in zip(kids, tokens, strict=True):
        said, _, signature = token.rpartition(".")
        ed25519.Ed25519PublicKey.from_public_bytes(shown[kid]).verify(raw(signature), said.encode())
