"""Cards with signatures: verified, refused, or kept as unverified when nobody can tell."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from molecule_platform.domain.card_signatures import Origin
from molecule_platform.keys import signature_verification, signing
from molecule_platform.ports.key_sets import KeySet, NoKeys, PublicKey
from molecule_platform.ports.signing import FreshKey
from molecule_platform.services.cards.card_signatures import CardSignatures
from molecule_wire import jcs

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

HOME = "https://ada.example/jwks.json"
CARD: dict[str, Any] = {
    "name": "Ada",
    "supportedInterfaces": [
        {"url": "https://ada.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "skills": [],
    "own": {"members": True},
}


class Shelf:
    """Key sets in memory; what is kept may be older than what is there."""

    def __init__(self) -> None:
        self.there: dict[str, list[PublicKey]] = {}
        self.kept: dict[str, list[PublicKey]] = {}
        self.asked: list[str] = []

    def origin(self, url: str) -> Origin | None:
        parts = urlsplit(url)
        return Origin(parts.scheme, parts.hostname or "", parts.port or 443)

    async def keys(self, url: str, *, anew: bool = False) -> KeySet:
        self.asked.append(url)
        if not anew and url in self.kept:
            return KeySet(self.kept[url], is_kept=True)
        if url not in self.there:
            raise NoKeys("the key server does not answer")
        return KeySet(self.there[url])


class Desk:
    """Who judges, and what is known to it."""

    def __init__(self, rig: Rig) -> None:
        self.shelf, self.log = Shelf(), rig.log
        self.signatures = CardSignatures(
            self.shelf, signature_verification.verify, frozenset({"trusted.example:443"}), rig.log
        )

    async def judge(self, *signatures: Any, **changes: Any) -> str:
        return await self.signatures.judge("ada", {**CARD, **changes, "signatures": list(signatures)})

    def show(self, *keys: FreshKey, at: str = HOME, kid: str = "") -> None:
        self.shelf.there[at] = [shown(key, kid) for key in keys]


@pytest.fixture
def waiters(rig: Rig) -> Desk:
    return Desk(rig)


def shown(key: FreshKey, kid: str = "") -> PublicKey:
    return {**key.public, "kid": kid or key.kid, "alg": key.alg}


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(key: FreshKey, over: dict[str, Any] | None = None, **header: Any) -> dict[str, str]:
    given = {"alg": key.alg, "kid": key.kid, "jku": HOME, **header}
    protected = text(json.dumps({name: value for name, value in given.items() if value}).encode())
    payload = text(jcs.canonical(CARD if over is None else over))
    return {
        "protected": protected,
        "signature": text(signing.load(key.private)(f"{protected}.{payload}".encode())),
    }


@pytest.fixture(params=["ES256", "EdDSA"])
def key(request: pytest.FixtureRequest) -> FreshKey:
    return signing.new_key(request.param)


async def test_a_card_without_signatures_asks_nobody(waiters: Desk) -> None:
    assert await waiters.signatures.judge("ada", CARD) == "unsigned"
    assert await waiters.judge() == "unsigned"
    assert waiters.shelf.asked == []


async def test_a_signature_over_the_whole_card_or_over_its_members_of_1_0_is_verified(
    waiters: Desk, key: FreshKey
) -> None:
    waiters.show(key)
    assert await waiters.judge(signed(key)) == "verified"
    known = {name: CARD[name] for name in ("name", "supportedInterfaces")}
    assert await waiters.judge(signed(key, over=known)) == "verified"
    assert waiters.log.said == []


async def test_a_signature_that_does_not_fit_refuses_the_card(
    waiters: Desk, key: FreshKey, refuses: Refuses
) -> None:
    waiters.show(key)
    for bad in (signed(key, over={"name": "Eve"}), {**signed(key), "signature": text(b"x" * 64)}):
        waiters.shelf.asked.clear()
        refusal = await refuses(waiters.judge(bad), "invalid-request")
        assert len(waiters.shelf.asked) == 1
        assert refusal.extras["field"] == "agent_card"
        assert key.kid in refusal.sentence


async def test_one_bad_signature_refuses_the_card_whatever_the_others_are(
    waiters: Desk, key: FreshKey, refuses: Refuses
) -> None:
    waiters.show(key)
    bad = signed(key, over={"name": "Eve"})
    await refuses(waiters.judge(signed(key), bad), "invalid-request")
    await refuses(waiters.judge(bad, signed(key, jku="https://elsewhere.example/")), "invalid-request")


async def test_one_valid_signature_is_enough_when_nobody_can_tell_of_the_others(
    waiters: Desk, key: FreshKey
) -> None:
    waiters.show(key)
    others = (
        signed(key, jku="https://elsewhere.example/"),
        signed(key, kid="unknown"),
        signed(key, jku=None),
    )
    assert await waiters.judge(*others, signed(key)) == "verified"


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"jku": None}, "jku is not at the card's own origin"),
        ({"jku": "http://ada.example/jwks.json"}, "jku is not at the card's own origin"),
        ({"jku": "https://ada.example:8443/jwks.json"}, "jku is not at the card's own origin"),
        ({"jku": "https://eve.example/jwks.json"}, "jku is not at the card's own origin"),
        ({"jku": "https://ada.example/gone"}, "does not answer"),
        ({"kid": "unknown"}, "no key of that kid"),
        ({"kid": None}, "no key of that kid"),
    ],
)
async def test_a_signature_that_nobody_can_check_leaves_the_card_unverified_and_says_why(
    waiters: Desk, key: FreshKey, header: dict[str, Any], why: str
) -> None:
    waiters.show(key)
    waiters.show(key, at="https://eve.example/jwks.json")
    assert await waiters.judge(signed(key, **header)) == "unverified"
    ((event, fields),) = waiters.log.said
    assert event == "the signature of a card cannot be checked"
    assert why in fields["why"]
    assert fields["workspace_id"] == "ada"


async def test_keys_elsewhere_are_not_even_asked_for(waiters: Desk, key: FreshKey) -> None:
    await waiters.judge(signed(key, jku="https://eve.example/jwks.json"))
    assert waiters.shelf.asked == []


async def test_a_host_that_the_operator_trusts_vouches_for_cards_from_anywhere(
    waiters: Desk, key: FreshKey
) -> None:
    waiters.show(key, at="https://trusted.example/keys")
    assert await waiters.judge(signed(key, jku="https://trusted.example/keys")) == "verified"


async def test_an_address_of_another_in_the_card_takes_its_own_place_from_it(
    waiters: Desk, key: FreshKey
) -> None:
    waiters.show(key)
    card = {**CARD, "url": "https://victim.example/"}
    assert await waiters.judge(signed(key, over=card), url="https://victim.example/") == "unverified"


async def test_a_key_that_came_after_what_is_kept_is_found(waiters: Desk, key: FreshKey) -> None:
    waiters.shelf.kept[HOME] = []
    waiters.show(key)
    assert await waiters.judge(signed(key)) == "verified"


async def test_an_agent_that_makes_a_new_key_of_the_same_name_is_not_turned_away(
    waiters: Desk, key: FreshKey
) -> None:
    waiters.shelf.kept[HOME] = [shown(signing.new_key(key.alg), kid="main")]
    waiters.show(key, kid="main")
    assert await waiters.judge(signed(key, kid="main")) == "verified"


async def test_an_older_key_alone_condemns_nobody(waiters: Desk, key: FreshKey) -> None:
    waiters.shelf.kept[HOME] = [shown(signing.new_key(key.alg), kid="main")]
    assert await waiters.judge(signed(key, kid="main")) == "unverified"


async def test_a_key_for_another_algorithm_proves_nothing(waiters: Desk) -> None:
    ours, other = signing.new_key("ES256"), signing.new_key("EdDSA")
    waiters.show(other, kid="main")
    assert await waiters.judge(signed(ours, kid="main")) == "unverified"


async def test_of_several_keys_of_one_name_any_may_have_signed(waiters: Desk, key: FreshKey) -> None:
    waiters.show(signing.new_key(key.alg), key, kid="main")
    assert await waiters.judge(signed(key, kid="main")) == "verified"


async def test_a_heap_of_keys_of_one_name_is_not_gone_through(waiters: Desk, key: FreshKey) -> None:
    waiters.show(key, *(signing.new_key("EdDSA") for _ in range(40)), kid="main")
    assert await waiters.judge(signed(key, kid="main")) == "unverified"
    assert "more than 2 keys" in waiters.log.said[-1][1]["why"]


# Keeping it


async def test_what_is_judged_is_kept_beside_the_card(rig: Rig) -> None:
    card: dict[str, Any] = {"name": "Ada", "signatures": [{}]}
    ada = await rig.agent()
    assert ada.card_signature == "unsigned"
    assert await rig.registration().update_card(ada, card) == "verified"
    assert (await rig.workspace(ada.id)).card_signature == "verified"
    rig.signed = "unverified"
    events = await rig.events()
    assert await rig.registration().update_card(ada, card) == "unverified"
    assert (await rig.workspace(ada.id)).card_signature == "unverified"
    assert await rig.events() == events
