"""Verification of a caller assertion: signature, claims, and that it was not used before.

No clock, no lock and no cryptography in here: the time, a guard and the check of a signature are handed in.
Where nothing can be verified, `is_direct` tells a caller on the same machine from anybody else.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TypeAlias

from molecule_wire import JSONObject, assertions
from molecule_wire.assertions import Assertion, AssertionRefused, Expected
from molecule_wire.caller_keys import VerificationKeys

MAX_REMEMBERED = 50_000
_SIGNS_OF_ANOTHER_ORIGIN = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "origin",
)

VerifySignature: TypeAlias = Callable[[bytes, bytes, bytes], bool]
"""Whether an Ed25519 signature is good: public key (32 bytes), signature, what was signed."""


class ReplayCache:
    """Replay cache: the ids of assertions that were used, each until it expires, and at most so many."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._expires: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._expires)

    def use(self, jti: str, expires_at: float, now: float) -> bool:
        """Whether an id is used for the first time."""
        # The platform's assertions live equally long, so the first that came is the first to expire.
        while self._expires and (
            next(iter(self._expires.values())) <= now or len(self._expires) >= self._most
        ):
            self._expires.popitem(last=False)
        if jti in self._expires:
            return False
        self._expires[jti] = expires_at
        return True


class CallerCheck:
    """Says who calls one workspace, from an assertion and the keys that `KeyCache` lets use.

    A server with threads hands in a lock as `guard`; it is held only while an id is looked up.
    """

    def __init__(
        self,
        workspace_id: str,
        verify: VerifySignature,
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        self._audience = f"workspace:{workspace_id.lower()}"
        self._verify = verify
        self._guard = guard
        self._used = ReplayCache()

    def caller(
        self, assertion: Assertion, keys: VerificationKeys, now: float, *, message_id: str = "", row: str = ""
    ) -> JSONObject:
        """The caller as `assertions.caller_of` tells it. Raises `AssertionRefused`; then nothing is used up.

        `now` is in seconds since the epoch; `message_id` is that of the body and `row` that of the header
        `X-Molecule-Message-Id`, each empty where the request has none.
        """
        public = keys.keys.get(assertion.kid)
        if public is None:
            raise AssertionRefused("the platform has no such key")
        if not self._verify(public, assertion.signature, assertion.said):
            raise AssertionRefused("its signature is not the platform's")
        expected = Expected(keys.issuer, self._audience, message_id, row)
        jti = assertions.check(assertion.claims, expected, now)
        expires_at = assertions.expires_at(assertion.claims)
        if self._guard is None:
            is_first = self._used.use(jti, expires_at, now)
        else:
            with self._guard:
                is_first = self._used.use(jti, expires_at, now)
        if not is_first:
            raise AssertionRefused("it was used before")
        return assertions.caller_of(assertion.claims)


def is_direct(peer_address: str, headers: Mapping[str, str]) -> bool:
    """Whether a request comes straight from this machine; `headers` has lower-case names."""
    return is_loopback(peer_address) and not any(headers.get(name) for name in _SIGNS_OF_ANOTHER_ORIGIN)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
