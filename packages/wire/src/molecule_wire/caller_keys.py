"""JWKS cache of the platform's keys, as a policy without I/O: when to fetch, and what to use meanwhile.

Whoever serves requests asks `KeyCache.look` and does what it says. One fetch is under way at a time, and
nobody who can be served with the keys that are known waits for it. There is no clock and no lock in here: a
server with threads holds a lock around each call, never around a fetch; on an event loop the calls need none.

    decision = cache.look(kid, now)
    if decision.action == "fetch":        # only one is told so, and must end it with `end_fetch`
    if decision.action == "wait":         # until the one who fetches has ended it; then look again
    if decision.action == "use":          # decision.keys, also if they lack `kid`: then there is no such key
    if decision.action == "unavailable":  # nobody can tell for decision.retry_after seconds
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from molecule_wire import JSON, assertions

KEYS_PATH = "/.well-known/jwks.json"
MAX_DOCUMENT_BYTES = 256 * 1024
FRESH_SECONDS = 300.0
# For a key that is not in a fresh document: the platform shows a new key before it signs with it.
REFETCH_SECONDS = 60.0
# The platform may be away for a while; what it signed before is still good.
STALE_SECONDS = 3600.0
RETRY_SECONDS = 5.0
FETCH_TIMEOUT_SECONDS = 5.0
# Whoever fetches may be gone without a word (a task that was cancelled); then somebody else fetches.
FETCH_LEASE_SECONDS = 30.0
ED25519_KEY_BYTES = 32

Action: TypeAlias = Literal["use", "fetch", "wait", "unavailable"]


class KeysUnreadable(ValueError):
    """Not a JWKS document, or one with a key in it that is none."""


class VerificationKeys(NamedTuple):
    """The Ed25519 keys of one JWKS document by their ids, and the issuer that signs with them."""

    issuer: str
    keys: Mapping[str, bytes]


class KeyDecision(NamedTuple):
    """What to do about one assertion. With "fetch", `keys` are what may be used until it is done, if any."""

    action: Action
    keys: VerificationKeys | None = None
    retry_after: float = 0.0


class KeyCache:
    """The keys of one platform and what is known of their age. `now` is a monotonic time in seconds."""

    def __init__(self, platform_url: str) -> None:
        self.platform_url = platform_url
        self._known: VerificationKeys | None = None
        self._known_since = 0.0
        self._asked_at = 0.0
        self._fetch_ends_at: float | None = None
        self._next_fetch_at: float | None = None

    @property
    def document_url(self) -> str:
        """Where the JWKS document is fetched."""
        return self.platform_url + KEYS_PATH

    def fresh(self, kid: str, now: float) -> VerificationKeys | None:
        """The known keys, if `look` would say to use them without any question."""
        known = self._known
        if known is not None and now - self._known_since < FRESH_SECONDS and kid in known.keys:
            return known
        return None

    def look(self, kid: str, now: float) -> KeyDecision:
        """Decide what to do for an assertion that names the key `kid`."""
        age = now - self._known_since
        known = self._known if age < STALE_SECONDS else None
        is_named = known is not None and kid in known.keys
        if known is not None and age < (FRESH_SECONDS if is_named else REFETCH_SECONDS):
            return KeyDecision("use", known)
        # From here on the document is too old for this assertion; the keys it names are still good.
        usable = known if is_named else None
        if self._fetch_ends_at is not None and now < self._fetch_ends_at:
            return KeyDecision("use", usable) if usable else KeyDecision("wait")
        if self._next_fetch_at is not None and now < self._next_fetch_at:
            if usable is not None:
                return KeyDecision("use", usable)
            return KeyDecision("unavailable", retry_after=self._next_fetch_at - now)
        self._asked_at, self._fetch_ends_at = now, now + FETCH_LEASE_SECONDS
        return KeyDecision("fetch", usable)

    def end_fetch(self, document: JSON, now: float) -> None:
        """Take what the fetch brought: a document, or `None` when it could not be had.

        One that cannot be read counts for none; then nobody tries again for a while.
        """
        self._fetch_ends_at = None
        try:
            self._known = read_keys(document, self.platform_url)
        except KeysUnreadable:
            self._next_fetch_at = now + RETRY_SECONDS
        else:
            # Its age counts from the question: what the platform changed after that is not in it.
            self._known_since, self._next_fetch_at = self._asked_at, None


def read_keys(document: JSON, platform_url: str) -> VerificationKeys:
    """Read a JWKS document, without keys of other kinds. Raises `KeysUnreadable`.

    An issuer that it does not name is the platform's origin.
    """
    if not isinstance(document, dict) or not isinstance(listed := document.get("keys"), list):
        raise KeysUnreadable("it is not a JWKS document")
    issuer = document.get("issuer")
    if not isinstance(issuer, str) or not issuer:
        parts = urlsplit(platform_url)
        issuer = f"{parts.scheme}://{parts.netloc}"
    keys: dict[str, bytes] = {}
    for key in listed:
        if not isinstance(key, dict) or (key.get("kty"), key.get("crv")) != ("OKP", "Ed25519"):
            continue
        kid, x, alg = key.get("kid"), key.get("x"), key.get("alg", assertions.ALGORITHM)
        if isinstance(kid, str) and isinstance(x, str) and alg == assertions.ALGORITHM:
            keys[kid] = _public_key(x)
    return VerificationKeys(issuer, keys)


def _public_key(x: str) -> bytes:
    try:
        public = assertions.decoded(x)
    except assertions.AssertionRefused:
        raise KeysUnreadable("a key of it is not base64url") from None
    if len(public) != ED25519_KEY_BYTES:
        raise KeysUnreadable("a key of it is not an Ed25519 key")
    return public
