"""Whether a caller assertion is the platform's: its keys, fetched and kept, and the ids that were used."""

import importlib.util
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import urlsplit

import requests

from molecule_agent import errors
from molecule_wire import JSON, JSONObject, assertions, jsontext
from molecule_wire.assertions import AssertionRefused, Expected

KEYS_PATH = "/.well-known/jwks.json"
FRESH_SECONDS = 300.0
REFETCH_SECONDS = 60.0
# The platform may be away for a while; what it signed before is still good.
STALE_SECONDS = 3600.0
RETRY_SECONDS = 5.0
TIMEOUT_SECONDS = 5.0
MOST_KEYS_BYTES = 256 * 1024
MOST_SEEN = 50_000

Verify: TypeAlias = Callable[[bytes, bytes], bool]
Fetch: TypeAlias = Callable[[str], JSON]


class KeysUnavailable(Exception):
    """The platform's keys cannot be fetched now, so nothing can be said about an assertion."""


def can_verify() -> bool:
    """Whether the extra that checks signatures is installed."""
    return importlib.util.find_spec("cryptography") is not None


class KeySet:
    """The keys of one JWKS document and the issuer it names; other kinds of keys are left out."""

    def __init__(self, document: JSON, platform_url: str) -> None:
        shape = document if isinstance(document, dict) else {}
        issuer, keys = shape.get("issuer"), shape.get("keys")
        parts = urlsplit(platform_url)
        self.issuer = issuer if isinstance(issuer, str) and issuer else f"{parts.scheme}://{parts.netloc}"
        self.keys: dict[str, Verify] = {}
        for key in keys if isinstance(keys, list) else ():
            if isinstance(key, dict):
                self._add(key)

    def _add(self, key: JSONObject) -> None:
        kid, x = key.get("kid"), key.get("x")
        if (key.get("kty"), key.get("crv")) != ("OKP", "Ed25519") or key.get("alg", "EdDSA") != "EdDSA":
            return
        if isinstance(kid, str) and isinstance(x, str):
            self.keys[kid] = _verifier(assertions.decoded(x))


class PlatformKeys:
    """The keys of a platform: fetched when they are needed, kept a while, asked for anew with care."""

    def __init__(self, fetch: Fetch | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch or fetch_document
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._url = ""
        self._known: KeySet | None = None
        self._fetched_at = 0.0
        self._next_try_at = 0.0

    def named(self, kid: str, platform_url: str) -> tuple[Verify, str]:
        """The key and the issuer. Raises `AssertionRefused` when the platform has no such key."""
        with self._lock:
            if platform_url != self._url:
                self._url, self._known, self._next_try_at = platform_url, None, 0.0
            known = self._current(kid)
        if kid not in known.keys:
            raise AssertionRefused("the platform has no such key")
        return known.keys[kid], known.issuer

    def _current(self, kid: str) -> KeySet:
        now = self._monotonic()
        known, age = self._known, now - self._fetched_at
        if known is not None and age < FRESH_SECONDS and (kid in known.keys or age < REFETCH_SECONDS):
            return known
        if now >= self._next_try_at:
            known = self._ask(now) or known
        if known is None or now - self._fetched_at >= STALE_SECONDS:
            raise KeysUnavailable(f"the keys of {self._url} cannot be fetched")
        return known

    def _ask(self, now: float) -> KeySet | None:
        try:
            self._known = KeySet(self._fetch(self._url + KEYS_PATH), self._url)
        except (requests.RequestException, jsontext.NotJSON, AssertionRefused):
            self._next_try_at = now + RETRY_SECONDS
            return None
        self._fetched_at = now
        return self._known


class SeenIds:
    """The ids of assertions that were used, each until it expires anyway; at most so many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expires: OrderedDict[str, float] = OrderedDict()

    def use(self, jti: str, expires_at: float, now: float) -> bool:
        """Whether an id is used for the first time."""
        with self._lock:
            while self._expires and (
                next(iter(self._expires.values())) <= now or len(self._expires) >= MOST_SEEN
            ):
                self._expires.popitem(last=False)
            if jti in self._expires:
                return False
            self._expires[jti] = expires_at
            return True


class Callers:
    """Says who calls, from the assertion that the platform signed."""

    def __init__(self, agent_id: str, keys: PlatformKeys, now: Callable[[], float] = time.time) -> None:
        self._audience = f"workspace:{agent_id.lower()}"
        self._keys = keys
        self._now = now
        self._seen = SeenIds()

    def caller(self, token: str, platform_url: str, *, body: bytes = b"", row: str = "") -> JSONObject:
        """The caller. Raises `CallerAssertionError`, or `KeysUnavailable` when nobody can tell."""
        try:
            return self._caller(token, platform_url, body, row)
        except AssertionRefused as problem:
            raise errors.CallerAssertionError(str(problem)) from problem

    def _caller(self, token: str, platform_url: str, body: bytes, row: str) -> JSONObject:
        assertion = assertions.parse(token)
        verify, issuer = self._keys.named(assertion.kid, platform_url)
        if not verify(assertion.signature, assertion.said):
            raise AssertionRefused("its signature is not the platform's")
        now = self._now()
        expected = Expected(issuer, self._audience, message_id_in(body), row)
        jti = assertions.check(assertion.claims, expected, now)
        if not self._seen.use(jti, assertions.expires_at(assertion.claims), now):
            raise AssertionRefused("it was used before")
        return assertions.caller_of(assertion.claims)


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


def fetch_document(url: str) -> JSON:
    """A JSON document of bounded size; redirects are not followed."""
    with requests.get(url, timeout=TIMEOUT_SECONDS, allow_redirects=False, stream=True) as answer:
        answer.raise_for_status()
        if answer.status_code != 200:
            raise requests.HTTPError(f"{url} answered {answer.status_code}")
        body = b""
        for chunk in answer.iter_content(65536):
            body += chunk
            if len(body) > MOST_KEYS_BYTES:
                raise requests.HTTPError(f"{url} is larger than {MOST_KEYS_BYTES} bytes")
    return jsontext.decode(body)


def _verifier(public: bytes) -> Verify:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(public)
    except ValueError:
        raise AssertionRefused("the platform's key is not an Ed25519 key") from None

    def verify(signature: bytes, said: bytes) -> bool:
        try:
            key.verify(signature, said)
        except InvalidSignature:
            return False
        return True

    return verify
