"""Signatures of cards that agents bring: what they claim and cover, and whose keys may vouch for it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from molecule_platform.domain.workspaces import invalid
from molecule_wire import JSON, JSONObject, assertions, jcs, jsontext
from molecule_wire.a2a import card_members

ALGORITHMS = ("ES256", "RS256", "PS256", "EdDSA")
MAX_SIGNATURES = 8

_FIELD = "agent_card"


class Origin(NamedTuple):
    """Where a URL leads, without its path."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True)
class Claim:
    """One signature: the key it says made it, and where that is shown; both may be missing."""

    alg: str
    kid: str | None
    jku: str | None
    protected: str
    signature: bytes


def claims_of(card: JSONObject) -> list[Claim]:
    """The signatures of a card, none for an unsigned one. Refuses what is malformed or not allowed."""
    given = card.get("signatures")
    if given is None:
        return []
    if not isinstance(given, list):
        _refuse("signatures is a list")
    if len(given) > MAX_SIGNATURES:
        _refuse(f"a card has at most {MAX_SIGNATURES} signatures")
    return [_claim(one) for one in given]


def covered(card: JSONObject) -> list[bytes]:
    """The bytes that a signature of the card may be over, canonical.

    Either all members, as readers of the plain JSON see them, or those of 1.0 alone, as readers see them that
    drop the rest.
    """
    whole = {name: value for name, value in card.items() if name != "signatures"}
    try:
        return list(dict.fromkeys((jcs.canonical(whole), jcs.canonical(card_members.known(card)))))
    except (ValueError, RecursionError):
        _refuse("it holds a number or text that has no canonical form, so no signature can cover it")


def addresses_of(card: JSONObject) -> list[str]:
    """Every address in a card; what gRPC has, a host and a port, is none."""
    own = [card.get("url")]
    for name, binding in (("supportedInterfaces", "protocolBinding"), ("additionalInterfaces", "transport")):
        listed = card.get(name)
        ways = [way for way in listed if isinstance(way, dict)] if isinstance(listed, list) else []
        own += [way.get("url") for way in ways if way.get(binding) != "GRPC"]
    return [address for address in own if isinstance(address, str) and address]


def may_vouch(keys_at: Origin, card_at: Collection[Origin | None], hosts: Collection[str]) -> bool:
    """Whether keys at an origin say anything of a card: over https, at the card's own place or a trusted one.

    A card has a place of its own if all its addresses share one: else its author could add that of another.
    """
    if keys_at.scheme != "https":
        return False
    return set(card_at) == {keys_at} or f"{keys_at.host}:{keys_at.port}" in hosts


def bad_signature(claim: Claim) -> NoReturn:
    """Refuse a card whose signature was checked and is wrong."""
    _refuse(
        f"the signature by key {_shown(claim.kid)} does not fit the card: sign the card as it is registered, "
        "or leave `signatures` out"
    )


def _claim(given: JSON) -> Claim:
    if not isinstance(given, dict) or not isinstance(given.get("header", {}), dict | None):
        _refuse("a signature is an object with protected, signature and perhaps header")
    protected, signature = given.get("protected"), given.get("signature")
    if not isinstance(protected, str) or not isinstance(signature, str):
        _refuse("a signature has the texts protected and signature")
    header = _header(protected)
    alg = header.get("alg")
    if not isinstance(alg, str) or alg not in ALGORITHMS:
        _refuse(f"its signature's alg is not allowed: sign with one of {', '.join(ALGORITHMS)}")
    if "crit" in header:
        _refuse("its signature demands an extension of JWS that is not known here (crit)")
    return Claim(alg, _named(header, "kid"), _named(header, "jku"), protected, _raw(signature))


def _header(protected: str) -> JSONObject:
    try:
        header = jsontext.decode(_raw(protected))
    except jsontext.NotJSON:
        header = None
    if not isinstance(header, dict):
        _refuse("the protected header of its signature is not base64url of a JSON object")
    return header


def _raw(text: str) -> bytes:
    try:
        return assertions.decoded(text)
    except assertions.AssertionRefused:
        _refuse("its signature is not base64url")


def _named(header: JSONObject, name: str) -> str | None:
    value = header.get(name)
    if value is not None and not isinstance(value, str):
        _refuse(f"the {name} of its signature is not a text")
    return value or None


def _shown(kid: str | None) -> str:
    return repr((kid or "")[:80])


def _refuse(why: str) -> NoReturn:
    raise invalid(_FIELD, f"{_FIELD} is refused: {why}")
