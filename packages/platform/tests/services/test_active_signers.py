"""The keys that sign are in hand on every replica, follow a rotation, and what they sign can be checked."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils

from molecule_platform.keys import service_sealers, signing
from molecule_platform.keys.keyfile import load_keychain
from molecule_platform.ports.signing import SigningKey
from molecule_platform.services.keys.active_signers import ActiveSigners
from molecule_platform.services.keys.key_rotation import KeyCheck
from molecule_platform.services.keys.signing_keys import ALGORITHMS, HANDOVER, SigningKeyService
from molecule_platform.services.maintenance.retention import RetentionPeriods, RetentionService
from molecule_platform.services.support.audit_log import AuditActor

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Refuses, Rig

BY = AuditActor("user:admin", "request-1")


class Vault:
    """The platform's own keys under a real key in a folder, on a replica of its own."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.rig = rig
        self.chain = load_keychain(folder, None)
        ring = self.chain.ring
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

    async def jwks(self) -> dict[str, dict[str, Any]]:
        document = await self.signing.document("http://platform")
        return {key["kid"]: key for key in document["keys"]}

    def living(self) -> dict[str, str]:
        return {alg: self.keys.signer(alg).kid for alg in ALGORITHMS}

    async def all(self) -> list[SigningKey]:
        return await self.rig.storage.read(lambda tx: tx.signing.all())

    async def well(self) -> bool:
        return await KeyCheck(self.rig.storage, self.chain)()


@pytest.fixture
async def vault(rig: Rig, tmp_path: Path) -> Vault:
    made = Vault(rig, tmp_path / "keys")
    await made.signing.ensure()
    await made.keys.refresh()
    rig.clock.advance(1)
    return made


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def test_what_is_signed_is_checked_with_the_public_document(vault: Vault) -> None:
    shown = await vault.jwks()
    eddsa, es256 = vault.keys.signer("EdDSA"), vault.keys.signer("ES256")
    ed25519.Ed25519PublicKey.from_public_bytes(raw(shown[eddsa.kid]["x"])).verify(
        eddsa.sign(b"said"), b"said"
    )
    x, y = (int.from_bytes(raw(shown[es256.kid][name]), "big") for name in ("x", "y"))
    signature = es256.sign(b"said")
    assert len(signature) == 64
    halves = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    public.verify(utils.encode_dss_signature(*halves), b"said", ec.ECDSA(hashes.SHA256()))


async def test_new_keys_are_shown_at_once_and_sign_when_everybody_can_know_them(
    vault: Vault, rig: Rig, tmp_path: Path
) -> None:
    other = Vault(rig, tmp_path / "keys")
    await other.keys.refresh()
    before = vault.living()
    assert other.living() == before
    done = await vault.signing.rotate(BY, rig.org.id)
    assert sorted(done.retired) == sorted(before.values())
    assert set(await vault.jwks()) == {*done.retired, *done.living.values()}
    rig.clock.advance((done.signs_at - rig.clock.now()).total_seconds() - 1)
    for one in (vault, other):
        await one.keys.refresh()
        assert one.living() == before
    rig.clock.advance(1)
    for one in (vault, other):
        await one.keys.refresh()
        assert one.living() == done.living


async def test_of_several_rotations_in_a_row_the_key_that_everybody_knows_signs(
    vault: Vault, rig: Rig
) -> None:
    before = vault.living()
    first = await vault.signing.rotate(BY, rig.org.id)
    rig.clock.advance(10)
    second = await vault.signing.rotate(BY, rig.org.id)
    await vault.keys.refresh()
    assert vault.living() == before
    rig.clock.advance(HANDOVER.total_seconds() - 10)
    await vault.keys.refresh()
    assert vault.living() == first.living
    rig.clock.advance(10)
    await vault.keys.refresh()
    assert vault.living() == second.living


async def test_a_rotation_rings_so_that_replicas_look_at_once(
    vault: Vault, rig: Rig, eventually: Eventually
) -> None:
    rig.clock.advance(1000)
    await rig.storage.write(lambda tx: tx.signing.destroy(vault.keys.signer("EdDSA").kid))
    done = await vault.signing.rotate(BY, rig.org.id)
    await eventually(lambda: vault.keys.signer("EdDSA").kid == done.living["EdDSA"])


async def test_the_private_half_of_a_retired_key_is_destroyed_soon_and_the_public_one_after_thirty_days(
    vault: Vault, rig: Rig
) -> None:
    done = await vault.signing.rotate(BY, rig.org.id)
    retention = RetentionService(rig.storage, rig.clock, RetentionPeriods())
    await retention.tick()
    assert {key.kid for key in await vault.all() if key.private_sealed} == {
        *done.retired,
        *done.living.values(),
    }
    rig.clock.advance(11 * 60)
    await retention.tick()
    assert {key.kid for key in await vault.all() if key.private_sealed} == set(done.living.values())
    assert len(await vault.all()) == 4
    rig.clock.advance(31 * 86400)
    await retention.tick()
    assert {key.kid for key in await vault.all()} == set(done.living.values())


async def test_a_rotation_is_written_into_the_security_log(vault: Vault, rig: Rig) -> None:
    done = await vault.signing.rotate(BY, rig.org.id)
    deeds = await rig.storage.read(lambda tx: tx.audit.newest(rig.org.id, 9))
    assert {deed.object for deed in deeds if deed.action == "signing-key.rotate"} == set(done.living.values())


async def test_keys_whose_seal_was_lost_are_told_and_can_be_replaced(
    vault: Vault, rig: Rig, tmp_path: Path, refuses: Refuses, eventually: Eventually
) -> None:
    stranger = Vault(rig, tmp_path / "another key")
    await stranger.keys.refresh()
    assert not await stranger.well()

    async def sign() -> object:
        return stranger.keys.signer("EdDSA")

    refused = await refuses(sign(), "platform-unavailable")
    assert "molecule key rotate" in refused.sentence
    assert any(said == "a signing key does not open" for said, _ in rig.log.said)
    done = await stranger.signing.rotate(BY, rig.org.id)
    assert done.signs_at == rig.clock.now()
    await eventually(lambda: _kid(stranger.keys) == done.living["EdDSA"])
    assert await stranger.well()


def _kid(keys: ActiveSigners) -> str | None:
    try:
        return keys.signer("EdDSA").kid
    except Exception:  # noqa: BLE001 - not yet
        return None
