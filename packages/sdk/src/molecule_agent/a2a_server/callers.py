"""Whether a caller assertion is the platform's: its keys by `requests`, signatures by `cryptography`."""

import importlib.util
import logging
import threading
import time
from collections.abc import Callable

import requests

from molecule_agent import errors
from molecule_wire import JSON, JSONObject, assertions, caller_keys, jsontext
from molecule_wire import callers as caller_rules
from molecule_wire.caller_keys import KeyCache, VerificationKeys
from molecule_wire.calls import values

# Who waits for another's fetch is woken by its end; this only bounds how long a lost wake-up could last.
WAKE_SECONDS = 1.0

log = logging.getLogger(__name__)


class KeysUnavailable(Exception):
    """The platform's keys cannot be fetched now, so nothing can be said about an assertion."""


def can_verify() -> bool:
    """Whether the extra that checks signatures is installed."""
    return importlib.util.find_spec("cryptography") is not None


class PlatformKeys:
    """The keys of a platform for many threads: one fetches at a time, and holds no lock meanwhile."""

    def __init__(
        self, fetch: Callable[[str], JSON] | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch or fetch_document
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._cache = KeyCache("")

    def for_key(self, kid: str, platform_url: str) -> VerificationKeys:
        """The keys to check an assertion with. Raises `KeysUnavailable` when nobody can tell them now."""
        while True:
            with self._changed:
                if platform_url != self._cache.platform_url:
                    self._cache = KeyCache(platform_url)
                cache = self._cache
                decision = cache.look(kid, self._monotonic())
                if decision.action == "wait":
                    self._changed.wait(WAKE_SECONDS)
            if decision.action == "fetch":
                self._fetch_into(cache)
            elif decision.action == "use" and decision.keys is not None:
                return decision.keys
            elif decision.action == "unavailable":
                raise KeysUnavailable(f"the keys of {platform_url} cannot be fetched")

    def _fetch_into(self, cache: KeyCache) -> None:
        document: JSON = None
        try:
            document = self._fetch(cache.document_url)
        except (requests.RequestException, jsontext.NotJSON) as problem:
            log.info("the keys of %s could not be fetched: %s", cache.platform_url, problem)
        finally:
            with self._changed:
                cache.end_fetch(document, self._monotonic())
                self._changed.notify_all()


class Callers:
    """Says who calls, from the assertion that the platform signed."""

    def __init__(self, agent_id: str, keys: PlatformKeys, now: Callable[[], float] = time.time) -> None:
        self._check = caller_rules.CallerCheck(agent_id, verify_ed25519, threading.Lock())
        self._check_claims = caller_rules.CallerCheck(agent_id, _unchecked, threading.Lock())
        self._keys = keys
        self._now = now

    def caller(self, token: str, platform_url: str, *, body: bytes = b"", row: str = "") -> JSONObject:
        """The caller. Raises `CallerAssertionError`, or `KeysUnavailable` when nobody can tell.

        Without a body it is not asked for which message the assertion was made.
        """
        try:
            assertion = assertions.parse(token)
            keys = self._keys.for_key(assertion.kid, platform_url)
            message_id = assertions.message_id_in(body) if body else ""
            return self._check.caller(assertion, keys, self._now(), message_id=message_id, row=row)
        except assertions.AssertionRefused as problem:
            raise errors.CallerAssertionError(str(problem)) from problem

    def vouched(self, token: str, row: str = "") -> JSONObject:
        """The caller of an assertion whose signature cannot be checked, in a request that proved itself.

        All else is checked as ever. Raises `CallerAssertionError`.
        """
        try:
            assertion = assertions.parse(token)
            issuer = values.text_of(assertion.claims.get("iss"))
            keys = VerificationKeys(issuer, {assertion.kid: b""})
            return self._check_claims.caller(assertion, keys, self._now(), row=row)
        except assertions.AssertionRefused as problem:
            raise errors.CallerAssertionError(str(problem)) from problem


def fetch_document(url: str) -> JSON:
    """A JSON document of bounded size; redirects are not followed."""
    timeout, most = caller_keys.FETCH_TIMEOUT_SECONDS, caller_keys.MAX_DOCUMENT_BYTES
    with requests.get(url, timeout=timeout, allow_redirects=False, stream=True) as answer:
        answer.raise_for_status()
        if answer.status_code != 200:
            raise requests.HTTPError(f"{url} answered {answer.status_code}")
        body = b""
        for chunk in answer.iter_content(65536):
            body += chunk
            if len(body) > most:
                raise requests.HTTPError(f"{url} is larger than {most} bytes")
    return jsontext.decode(body)


def _unchecked(_public: bytes, _signature: bytes, _said: bytes) -> bool:
    """Take a signature for good: without the extra `crypto` nobody can tell."""
    return True


def verify_ed25519(public: bytes, signature: bytes, payload: bytes) -> bool:
    """Whether a signature is good; loads the extra `crypto` at the first one."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, payload)
    except (InvalidSignature, ValueError):
        return False
    return True
