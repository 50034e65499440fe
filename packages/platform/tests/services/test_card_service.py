"""Cards: who may see them, when they are made anew, and signatures that two kinds of reader can check."""

from __future__ import annotations

import base64
import copy
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.utils import signing as a2a_signing
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from molecule_platform.domain.cards import Form
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.keys import service_sealers, signing
from molecule_platform.keys.keyfile import load_keychain
from molecule_platform.services.cards import card_service as service
from molecule_platform.services.cards.card_service import CardService
from molecule_platform.services.keys.active_signers import ActiveSigners
from molecule_platform.services.keys.signing_keys import SigningKeyService
from molecule_platform.services.support import signals
from molecule_platform.services.support.audit_log import AuditActor
from molecule_wire import jcs

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

BASE = "https://platform.example/prefix"
FORMS: tuple[Form, ...] = ("merged", "1.0", "0.3")
CARD: dict[str, Any] = {
    "name": "Zoë \U0001f600",
    "capabilities": {
        "extensions": [
            {"uri": "u:1", "params": {"n": 1.0, "big": 2**60, "small": 1e-7, "\ufb33": 1, "é": {}}}
        ]
    },
    "skills": [{"id": "s", "name": "S", "description": "", "tags": []}],
    "signatures": [{"protected": "stale", "signature": "stale"}],
}


class Gallery:
    """The cards of a rig, and the keys that sign them."""

    def __init__(self, rig: Rig, folder: Path, *, push: bool = True) -> None:
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
        self.cards = CardService(rig.storage, rig.signals, rig.authority, self.keys, push=push)

    async def jwks(self) -> dict[str, dict[str, Any]]:
        return {key["kid"]: key for key in (await self.signing.document(BASE))["keys"]}

    def shown(self, workspace: Workspace, form: Form = "merged") -> dict[str, Any]:
        return json.loads(self.cards.page(workspace, form, BASE).body)


@pytest.fixture
async def gallery(rig: Rig, tmp_path: Path) -> Gallery:
    made = Gallery(rig, tmp_path)
    await made.signing.ensure()
    await made.keys.refresh()
    rig.clock.advance(1)
    return made


@pytest.fixture
async def ada(rig: Rig) -> Workspace:
    return await rig.changed(await rig.agent(), agent_card=CARD)


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def plain_b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def valid_over_raw_json(card: dict[str, Any], keys: dict[str, dict[str, Any]]) -> list[bool]:
    """A verifier that knows nothing of the protocol but its rule for signatures."""
    signatures = card["signatures"]
    payload = plain_b64(jcs.canonical({name: value for name, value in card.items() if name != "signatures"}))
    return [_is_valid(one, payload, keys) for one in signatures]


def _is_valid(one: dict[str, str], payload: bytes, keys: dict[str, dict[str, Any]]) -> bool:
    header = json.loads(raw(one["protected"]))
    assert header["alg"] == "ES256"
    assert header["typ"] == "JOSE"
    assert header["jku"] == f"{BASE}/.well-known/jwks.json"
    key, signature = keys[header["kid"]], raw(one["signature"])
    x, y, r, s = (
        int.from_bytes(part, "big") for part in (raw(key["x"]), raw(key["y"]), signature[:32], signature[32:])
    )
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    said = one["protected"].encode() + b"." + payload
    try:
        public.verify(utils.encode_dss_signature(r, s), said, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def official(keys: dict[str, dict[str, Any]]) -> Callable[[Any], None]:
    def key_of(kid: str | None, jku: str | None) -> jwt.PyJWK:
        assert kid is not None
        assert jku == f"{BASE}/.well-known/jwks.json"
        return jwt.PyJWK(keys[kid])

    return a2a_signing.create_signature_verifier(key_of, ["ES256"])


# Signatures


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_is_signed_for_readers_of_the_raw_json(
    gallery: Gallery, ada: Workspace, form: Form
) -> None:
    valid = valid_over_raw_json(gallery.shown(ada, form), await gallery.jwks())
    assert valid == ([False, True] if form == "merged" else [True])


@pytest.mark.parametrize("form", ["merged", "1.0"])
async def test_the_official_verifier_finds_a_valid_signature(
    gallery: Gallery, ada: Workspace, form: Form
) -> None:
    keys = await gallery.jwks()
    official(keys)(parse_agent_card(gallery.shown(ada, form)))


async def test_a_card_that_was_altered_is_not_valid_for_either(gallery: Gallery, ada: Workspace) -> None:
    keys = await gallery.jwks()
    for form in FORMS:
        card = gallery.shown(ada, form)
        card["skills"][0]["name"] = "Another"
        assert not any(valid_over_raw_json(card, keys))
        with pytest.raises(a2a_signing.InvalidSignaturesError):
            official(keys)(parse_agent_card(copy.deepcopy(card)))


async def test_what_a_retired_key_signed_can_still_be_checked_and_new_cards_have_the_new_key(
    gallery: Gallery, ada: Workspace, rig: Rig
) -> None:
    before = gallery.shown(ada, "1.0")
    await gallery.signing.rotate(AuditActor("user:admin", "r"), rig.org.id)
    rig.clock.advance(100)
    await gallery.keys.refresh()
    after = gallery.shown(ada, "1.0")
    keys = await gallery.jwks()
    assert valid_over_raw_json(before, keys) == valid_over_raw_json(after, keys) == [True]
    kids = {json.loads(raw(card["signatures"][0]["protected"]))["kid"] for card in (before, after)}
    assert len(kids) == 2


async def test_replicas_show_the_same_bytes(
    gallery: Gallery, ada: Workspace, rig: Rig, tmp_path: Path
) -> None:
    other = Gallery(rig, tmp_path)
    await other.keys.refresh()
    for form in FORMS:
        ours, theirs = (one.cards.page(ada, form, BASE) for one in (gallery, other))
        assert (ours.body, ours.etag) == (theirs.body, theirs.etag)


async def test_a_prefix_of_the_platform_is_in_every_address_once(gallery: Gallery, ada: Workspace) -> None:
    card = gallery.shown(ada)
    assert {one["url"] for one in card["supportedInterfaces"]} == {f"{BASE}/agents/{ada.id}"}
    assert card["url"] == f"{BASE}/agents/{ada.id}"


# Kept in memory


async def test_a_card_is_made_once_until_it_changes(gallery: Gallery, ada: Workspace, rig: Rig) -> None:
    first = gallery.cards.page(ada, "1.0", BASE)
    again = await rig.changed(ada, current_task="busy")
    assert gallery.cards.page(again, "1.0", BASE) is first
    renamed = await rig.changed(ada, agent_card={**CARD, "name": "Another"})
    second = gallery.cards.page(renamed, "1.0", BASE)
    assert second is not first
    assert second.etag != first.etag
    assert gallery.cards.page(renamed, "1.0", "http://other") is not second


async def test_what_is_kept_stays_small(
    gallery: Gallery, ada: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = len(gallery.cards.page(ada, "1.0", BASE).body)
    monkeypatch.setattr(service, "MOST_BYTES", 3 * one)
    for number in range(20):
        gallery.cards.page(ada, "1.0", f"{BASE}/{number}")
    kept = gallery.cards._pages
    assert sum(len(page.body) for page in kept.values()) == gallery.cards._bytes <= 3 * one


# Who may see it


async def test_a_public_card_is_for_everybody_and_another_only_for_those_the_tree_allows(
    gallery: Gallery,
    ada: Workspace,
    rig: Rig,
    principal_of: Callable[[Workspace], Principal],
    refuses: Refuses,
) -> None:
    bob = await rig.agent("Bob")
    for caller in (rig.admin, principal_of(ada)):
        assert (await gallery.cards.readable(caller, ada.id)).id == ada.id
    await refuses(gallery.cards.readable(None, ada.id), "unauthenticated")
    await refuses(gallery.cards.readable(None, "11111111-1111-4111-8111-111111111111"), "unauthenticated")
    far = Principal("org-token:x", "another-org", frozenset({"org"}), "far")
    await refuses(gallery.cards.readable(far, ada.id), "workspace-not-found")
    lonely = await rig.changed(bob, isolated=True)
    await refuses(gallery.cards.readable(principal_of(lonely), ada.id), "hierarchy-denied")
    await rig.changed(ada, visibility="public")
    for caller in (None, far, principal_of(lonely)):
        assert (await gallery.cards.readable(caller, ada.id)).visibility == "public"


async def test_what_was_seen_counts_for_less_than_a_second(
    gallery: Gallery, ada: Workspace, rig: Rig, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    await rig.changed(ada, visibility="public")
    seen = await gallery.cards.readable(None, ada.id)
    await rig.changed(ada, visibility="private")
    assert await gallery.cards.readable(None, ada.id) is seen
    now += 1
    await refuses(gallery.cards.readable(None, ada.id), "unauthenticated")


async def test_when_the_bell_of_a_card_rings_it_is_looked_at_again(
    gallery: Gallery, ada: Workspace, rig: Rig, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FRESH_SECONDS", 3600.0)
    await rig.changed(ada, visibility="public")
    bob = await rig.changed(await rig.agent("Bob"), visibility="public")
    for one in (ada, bob):
        await gallery.cards.readable(None, one.id)
        await rig.changed(one, visibility="private")
    rig.signals.notify([signals.card(ada.id)])
    await refuses(gallery.cards.readable(None, ada.id), "unauthenticated")
    assert (await gallery.cards.readable(None, bob.id)).id == bob.id


async def test_what_changes_while_somebody_looks_is_not_remembered_as_it_was(
    gallery: Gallery, ada: Workspace, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FRESH_SECONDS", 3600.0)
    looking = gallery.cards._look

    async def look(*asked: Any) -> tuple[Workspace, bool]:
        seen = await looking(*asked)
        monkeypatch.setattr(gallery.cards, "_look", looking)
        await rig.registration().update_card(ada, {"name": "Newer"})
        return seen

    monkeypatch.setattr(gallery.cards, "_look", look)
    assert (await gallery.cards.readable(rig.admin, ada.id)).agent_card == CARD
    assert (await gallery.cards.readable(rig.admin, ada.id)).agent_card == {"name": "Newer"}


async def test_no_more_than_so_many_readers_are_remembered(
    gallery: Gallery, ada: Workspace, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_REMEMBERED", 3)
    for number in range(10):
        reader = replace(rig.admin, name=f"reader {number}")
        await gallery.cards.readable(reader, ada.id)
        assert gallery.cards._readers == len(gallery.cards._let_in[ada.id]) <= 3
    rig.signals.notify([signals.card(ada.id)])
    assert (gallery.cards._readers, gallery.cards._let_in) == (0, {})


async def test_a_card_is_shown_for_an_agent_that_never_registered_one(gallery: Gallery, rig: Rig) -> None:
    created = await rig.created("Newcomer", visibility="public")
    workspace = await gallery.cards.readable(None, created.workspace.id)
    assert gallery.shown(workspace)["name"] == "Newcomer"


async def test_push_is_offered_only_where_it_can_be_done(rig: Rig, gallery: Gallery, tmp_path: Path) -> None:
    ada = await rig.agent("Without")
    quiet = Gallery(rig, tmp_path, push=False)
    await quiet.keys.refresh()
    assert quiet.shown(ada)["capabilities"]["pushNotifications"] is False
    assert gallery.shown(ada)["capabilities"]["pushNotifications"] is True
