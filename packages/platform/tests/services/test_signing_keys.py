"""The platform's keys: one of each kind from the first start on, and retired ones shown for a while."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from molecule_platform.ports.signing import FreshKey, SigningKey
from molecule_platform.services.keys.signing_keys import SigningKeyService

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Rig


@pytest.fixture
def signing(rig: Rig) -> SigningKeyService:
    """Keys that say their number."""
    made: list[str] = []

    def make(alg: str) -> FreshKey:
        made.append(alg)
        return FreshKey(f"{alg}-{len(made)}", alg, {"kty": "any"}, "hidden")

    return SigningKeyService(
        rig.storage, rig.clock, make, lambda plain, place: f"{place}:{plain[::-1]}", lambda _: True
    )


async def kids(signing: SigningKeyService) -> list[str]:
    return [key["kid"] for key in (await signing.document("http://platform"))["keys"]]


async def test_the_keys_are_made_once(signing: SigningKeyService) -> None:
    for _ in range(3):
        await signing.ensure()
    assert await kids(signing) == ["EdDSA-1", "ES256-2"]


async def test_the_document_has_the_issuer_and_the_public_halves_alone(signing: SigningKeyService) -> None:
    await signing.ensure()
    document = await signing.document("http://platform")
    assert document["issuer"] == "http://platform"
    assert document["keys"][0] == {"kty": "any", "kid": "EdDSA-1", "alg": "EdDSA", "use": "sig"}
    assert "hidden" not in str(document)


async def test_a_retired_key_is_replaced_at_once_and_shown_for_thirty_days(
    signing: SigningKeyService, rig: Rig
) -> None:
    old = SigningKey("old", "EdDSA", {}, "sealed", rig.clock.now(), retired_at=rig.clock.now())
    await rig.storage.write(lambda tx: tx.signing.insert(old))
    await signing.ensure()
    assert set(await kids(signing)) == {"old", "EdDSA-1", "ES256-2"}
    rig.clock.advance(timedelta(days=30).total_seconds())
    assert set(await kids(signing)) == {"EdDSA-1", "ES256-2"}


async def test_a_private_half_is_kept_sealed_in_its_place(signing: SigningKeyService, rig: Rig) -> None:
    await signing.ensure()
    keys = await rig.storage.read(lambda tx: tx.signing.all())
    assert {key.private_sealed for key in keys} == {
        "signing|EdDSA-1:neddih",
        "signing|ES256-2:neddih",
    }
    await rig.storage.write(lambda tx: tx.signing.reseal("EdDSA-1", "anew"))
    again = await rig.storage.read(lambda tx: tx.signing.all())
    assert (
        replace(keys[0], private_sealed="anew") in again or replace(keys[1], private_sealed="anew") in again
    )
