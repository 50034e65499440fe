"""Verification of a caller assertion: signature, claims, and that it was not used before.

No clock, no lock and no cryptography in here: the time, a guard and the check of a signature are handed in.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from molecule_wire import JSONObject, assertions
from molecule_wire.assertions import Assertion, AssertionRefused, Expected
from molecule_wire.caller_keys import VerificationKeys

MAX_REMEMBERED = 50_000

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
        self._guard = guard or nullcontext()
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
        with self._guard:
            is_first = self._used.use(jti, assertions.expires_at(assertion.claims), now)
        if not is_first:
            raise AssertionRefused("it was used before")
        return assertions.caller_of(assertion.claims)
