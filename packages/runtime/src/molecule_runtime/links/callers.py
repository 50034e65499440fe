"""Caller verification at the agent's own server: who sent a request, as far as the platform vouches for it.

The rules are those of `molecule_wire`; here are the policy, the keys over asyncio, and libsodium, which no
other module of the runtime knows. Nothing else that a request says about its sender counts.
"""

import asyncio
import functools
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast, get_args
from urllib.parse import urlsplit

from molecule_runtime.domain.turns import Caller, Delegation
from molecule_runtime.links.time_source import SYSTEM_TIME, TimeSource
from molecule_wire import JSON, JSONObject, assertions
from molecule_wire.assertions import HEADER, AssertionRefused
from molecule_wire.caller_keys import KeyCache, VerificationKeys
from molecule_wire.callers import CallerCheck, is_direct, is_loopback
from molecule_wire.calls import CallFailed
from molecule_wire.values import value

CallerPolicy: TypeAlias = Literal["always", "auto", "off"]

_HEADER = HEADER.lower()
ROW_HEADER = "x-molecule-message-id"
RETRY_SECONDS = 5
PUBLIC_KEY_BYTES, SIGNATURE_BYTES = 32, 64

log = logging.getLogger("molecule_runtime")


@value
class CallerAccepted:
    """A request that may be served. Without an assertion, where none is needed, there is no caller.

    `claims` has the members of `molecule_wire.assertions.caller_of`. `has_dispatch_secret` says that the
    request brought the secret of the registration, which only the platform knows.
    """

    caller: Caller | None = None
    delegation: Delegation | None = None
    claims: JSONObject = field(default_factory=dict[str, JSON])
    has_dispatch_secret: bool = False


@dataclass(frozen=True)
class CallerRefused:
    """A request that is not served, as its answer says it."""

    status: int
    code: str
    sentence: str
    retry_after: int | None = None


class KeysUnavailable(Exception):
    """The platform's keys cannot be fetched now, so nothing can be said about an assertion."""


class PlatformKeys:
    """The platform's keys, fetched by one task at a time; nobody waits who can be served with known ones."""

    def __init__(
        self, platform_url: str, fetch: Callable[[], Awaitable[JSON]], time_source: TimeSource = SYSTEM_TIME
    ) -> None:
        self._cache = KeyCache(platform_url)
        self._fetch = fetch
        self._time = time_source
        self._fetching: asyncio.Task[None] | None = None

    def at_hand(self, kid: str) -> VerificationKeys | None:
        """The keys to check an assertion with, if nothing is to be fetched for it."""
        return self._cache.fresh(kid, self._time.monotonic())

    async def for_key(self, kid: str) -> VerificationKeys:
        """The keys to check an assertion with. Raises `KeysUnavailable`."""
        while True:
            decision = self._cache.look(kid, self._time.monotonic())
            if decision.action == "unavailable":
                raise KeysUnavailable(f"the keys of {self._cache.platform_url} cannot be fetched")
            if decision.action == "fetch":
                # In a task of its own: a caller that hangs up must not end the fetch of the others.
                self._fetching = asyncio.create_task(self._fetch_into_cache())
            if decision.keys is not None:
                return decision.keys
            if self._fetching is not None:
                await asyncio.wait({self._fetching})

    async def close(self) -> None:
        """End a fetch that is under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching})

    async def _fetch_into_cache(self) -> None:
        document: JSON = None
        try:
            document = await self._fetch()
        except (CallFailed, OSError) as problem:
            log.warning("the keys of %s could not be fetched: %s", self._cache.platform_url, problem)
        finally:
            self._cache.end_fetch(document, self._time.monotonic())


class CallerVerifier:
    """Says of each request who sent it, or why it is refused.

    `always` needs an assertion from everybody. `auto` does not where both the platform and the sender are on
    this machine. `off` refuses nobody; an assertion that is good still names the caller.
    """

    def __init__(
        self,
        workspace_id: str,
        keys: PlatformKeys,
        platform_url: str,
        *,
        policy: CallerPolicy = "auto",
        dispatch_secret: str = "",
        time_source: TimeSource = SYSTEM_TIME,
    ) -> None:
        self._check = CallerCheck(workspace_id, verify_ed25519)
        self._keys = keys
        self._policy = policy
        self._is_local_platform = is_loopback(urlsplit(platform_url).hostname or "")
        self._dispatch_secret = dispatch_secret.encode()
        self._usual_authorization = b"Bearer " + self._dispatch_secret
        self._time = time_source

    async def verify(
        self, peer_address: str, headers: Mapping[str, str], body: bytes
    ) -> CallerAccepted | CallerRefused:
        """Both steps at once, for a request whose body was read; `headers` has lower-case names."""
        accepted = await self.verify_head(peer_address, headers)
        if isinstance(accepted, CallerRefused) or not accepted.claims.get("message_id"):
            return accepted
        return self.check_message_id(accepted, assertions.message_id_in(body))

    async def verify_head(
        self, peer_address: str, headers: Mapping[str, str]
    ) -> CallerAccepted | CallerRefused:
        """The first step, before the body is read: all but for which message the assertion was made.

        An assertion that is accepted here is used up.
        """
        has_secret = self._has_dispatch_secret(headers)
        token = headers.get(_HEADER, "").strip()
        if not token:
            if self._needs_assertion(peer_address, headers):
                return _unverified(f"{HEADER} is missing: only the platform may call this agent")
            return CallerAccepted(has_dispatch_secret=has_secret)
        if self._dispatch_secret and not has_secret and self._policy != "off":
            return _unverified("the dispatch secret is missing or wrong")
        try:
            assertion = assertions.parse(token)
            keys = self._keys.at_hand(assertion.kid) or await self._keys.for_key(assertion.kid)
            row = headers.get(ROW_HEADER, "")
            claims = self._check.caller(assertion, keys, self._time.time(), row=row)
        except AssertionRefused as problem:
            refused = _invalid(str(problem))
        except KeysUnavailable as problem:
            sentence = f"the caller cannot be verified now: {problem}"
            refused = CallerRefused(503, "agent-busy", sentence, RETRY_SECONDS)
        else:
            return _accepted(claims, has_secret)
        if self._policy == "off":
            log.info("a caller is served unverified: %s", refused.sentence)
            return CallerAccepted(has_dispatch_secret=has_secret)
        return refused

    def check_message_id(self, accepted: CallerAccepted, message_id: str) -> CallerAccepted | CallerRefused:
        """The second step, on the message id that the body names."""
        named = accepted.claims.get("message_id")
        if not named or not message_id or named == message_id:
            return accepted
        if self._policy == "off":
            return CallerAccepted(has_dispatch_secret=accepted.has_dispatch_secret)
        return _invalid("it was made for another message")

    def _needs_assertion(self, peer_address: str, headers: Mapping[str, str]) -> bool:
        if self._policy == "auto":
            return not (self._is_local_platform and is_direct(peer_address, headers))
        return self._policy == "always"

    def _has_dispatch_secret(self, headers: Mapping[str, str]) -> bool:
        if not self._dispatch_secret:
            return False
        authorization = headers.get("authorization", "")
        if hmac.compare_digest(authorization.encode(), self._usual_authorization):
            return True
        scheme, _, credentials = authorization.partition(" ")
        is_same = hmac.compare_digest(credentials.strip().encode(), self._dispatch_secret)
        return is_same and scheme.lower() == "bearer"


def read_policy(text: str) -> CallerPolicy:
    """Read `MOLECULE_REQUIRE_CALLER`; blank is `auto`, ValueError for an unknown word."""
    word = text.strip().lower() or "auto"
    if word not in get_args(CallerPolicy):
        raise ValueError(f"MOLECULE_REQUIRE_CALLER is {text!r}; it must be always, auto or off")
    return cast(CallerPolicy, word)


def verify_ed25519(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether a signature is good. libsodium needs half the time of OpenSSL."""
    if len(public) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    opened, refused = _libsodium()
    try:
        opened(signature + message, public)
    except refused:
        return False
    return True


@functools.cache
def _libsodium() -> tuple[Callable[[bytes, bytes], bytes], type[Exception]]:
    """Loaded at the first signature."""
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import CryptoError

    return crypto_sign_open, CryptoError


def _accepted(claims: JSONObject, has_secret: bool) -> CallerAccepted:
    principal = _text(claims.get("principal"))
    caller = Caller(principal, _text(claims.get("name")), _text(claims.get("org")), verified=True)
    context = claims.get("delegation")
    delegation = None
    if isinstance(context, dict):
        kind, _, source = principal.partition(":")
        source = source if kind == "workspace" else ""
        delegation = Delegation(_text(context.get("id")), source_workspace_id=source)
    return CallerAccepted(caller, delegation, claims, has_secret)


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _unverified(sentence: str) -> CallerRefused:
    return CallerRefused(401, "caller-unverified", f"caller not verified: {sentence}")


def _invalid(reason: str) -> CallerRefused:
    return CallerRefused(401, "caller-assertion-invalid", f"{HEADER} is not valid: {reason}")
