"""Caller assertions: what the header `X-Molecule-Caller` must say to be believed.

The rules are here; the signature is checked by whoever has the cryptography for it.
"""

import binascii
import functools
from typing import NamedTuple

from molecule_wire import JSON, JSONObject, jsontext

HEADER = "X-Molecule-Caller"
ALGORITHM = "EdDSA"
LEEWAY_SECONDS = 30
LIFETIME_SECONDS = 300
MOST_CHARACTERS = 64 * 1024
_LONGEST_ID = 256
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_PADDING = (b"", b"===", b"==", b"=")


class AssertionRefused(Exception):
    """An assertion that is not believed; the text says why, and holds nothing of it."""


class Assertion(NamedTuple):
    """An assertion taken apart; nothing of it is checked yet but its form."""

    kid: str
    claims: JSONObject
    said: bytes
    signature: bytes


class Expected(NamedTuple):
    """What the claims must fit; an id that is empty is not compared."""

    issuer: str
    audience: str
    message_id: str = ""
    row: str = ""


def parse(token: str) -> Assertion:
    """Take a token apart. Raises `AssertionRefused` unless it is a JWT of the one algorithm we sign with."""
    said, _, signature = token.strip().rpartition(".")
    first, _, second = said.partition(".")
    if not first or "." in second or len(token) > MOST_CHARACTERS or not token.isascii():
        raise AssertionRefused("it is not a signed JWT")
    header, claims = _header(first), _object(second)
    if header.get("alg") != ALGORITHM:
        raise AssertionRefused(f"its algorithm is not {ALGORITHM}")
    kid = header.get("kid")
    if not isinstance(kid, str) or not kid or "crit" in header:
        raise AssertionRefused("its header does not name a key, or asks for what is not known here")
    return Assertion(kid, claims, said.encode(), decoded(signature))


def check(claims: JSONObject, expected: Expected, now: float) -> str:
    """Check every claim but whether it was used before; returns the id (`jti`) by which that is known."""
    if claims.get("iss") != expected.issuer:
        raise AssertionRefused("another platform issued it")
    if claims.get("aud") != expected.audience:
        raise AssertionRefused("it is meant for another workspace")
    _check_times(claims, now)
    if _names_another(claims.get("mid"), expected.message_id) or _names_another(
        claims.get("row"), expected.row
    ):
        raise AssertionRefused("it was made for another message")
    if not _is_id(claims.get("sub")):
        raise AssertionRefused("it does not say who calls")
    jti = claims.get("jti")
    if not isinstance(jti, str) or not _is_id(jti):
        raise AssertionRefused("it has no id")
    return jti


def caller_of(claims: JSONObject) -> JSONObject:
    """Who calls and for what, as handlers are told: every claim that says something of the message itself.

    `principal` and `name` are the caller's identity and display name, `message_id` is the id that the sender
    gave the message and `row` the platform's. `delegation` is the delegation context (`id`, `root`, `depth`,
    `calls_left`, `chain`) or `None`; its `id` is the `parent_delegation_id` of what is delegated further.
    """
    return {
        "principal": claims.get("sub"),
        "name": claims.get("name"),
        "org": claims.get("org"),
        "message_id": claims.get("mid"),
        "row": claims.get("row"),
        "context_id": claims.get("ctx"),
        "delegation": claims.get("delegation"),
    }


def message_id_in(body: bytes) -> str:
    """The id of the message that a request carries, over either binding; empty when it carries none."""
    try:
        shape = jsontext.decode(body)
    except jsontext.NotJSON:
        return ""
    params = shape.get("params", shape) if isinstance(shape, dict) else None
    message = params.get("message") if isinstance(params, dict) else None
    named = message.get("messageId") if isinstance(message, dict) else None
    return named if isinstance(named, str) else ""


def expires_at(claims: JSONObject) -> float:
    """When a checked assertion can be used no more."""
    return _seconds(claims, "exp") + LEEWAY_SECONDS


def decoded(text: str) -> bytes:
    """Undo base64 as JOSE writes it: for URLs, without padding."""
    try:
        padded = text.encode("ascii").translate(_URL_SAFE) + _PADDING[len(text) % 4]
        return binascii.a2b_base64(padded, strict_mode=True)
    except (binascii.Error, ValueError):
        raise AssertionRefused("it is not a signed JWT") from None


def _check_times(claims: JSONObject, now: float) -> None:
    expires, begins, issued = _seconds(claims, "exp"), _seconds(claims, "nbf"), _seconds(claims, "iat")
    if not 0 < expires - min(begins, issued) <= LIFETIME_SECONDS:
        raise AssertionRefused(f"it would be good for longer than {LIFETIME_SECONDS} seconds")
    if now >= expires + LEEWAY_SECONDS:
        raise AssertionRefused("it has expired: compare the clocks of this machine and of the platform")
    if now < max(begins, issued) - LEEWAY_SECONDS:
        raise AssertionRefused("it is not good yet: compare the clocks of this machine and of the platform")


def _seconds(claims: JSONObject, name: str) -> float:
    value = claims.get(name)
    if type(value) is not int and type(value) is not float:
        raise AssertionRefused("it does not say when it is good")
    return value


def _header(part: str) -> JSONObject:
    """The header is the same on every assertion that is signed with one key."""
    return _known_header(part) if len(part) <= _LONGEST_ID else _object(part)


def _object(part: str) -> JSONObject:
    try:
        value = jsontext.decode(decoded(part))
    except jsontext.NotJSON:
        raise AssertionRefused("it is not a signed JWT") from None
    if not isinstance(value, dict):
        raise AssertionRefused("it is not a signed JWT")
    return value


_known_header = functools.lru_cache(maxsize=16)(_object)


def _names_another(said: JSON, wanted: str) -> bool:
    return bool(wanted and said) and said != wanted


def _is_id(value: JSON) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_ID
