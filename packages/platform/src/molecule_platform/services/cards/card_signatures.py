"""Whether the signatures hold that agents bring with their cards."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from molecule_platform.domain import card_signatures as rules
from molecule_platform.domain.card_signatures import Claim
from molecule_platform.ports.key_sets import KeySets, NoKeys, PublicKey, Verify
from molecule_platform.ports.log import Log
from molecule_platform.services.keys.caller_assertions import encoded

# A key's name is meant to be its own, and each key that is tried costs time.
MAX_PER_KEY_ID = 2


@dataclass(frozen=True)
class _Verdict:
    """None of `is_valid` means that nobody can tell now, because of `why`."""

    is_valid: bool | None
    why: str = ""


class CardSignatures:
    """Judges cards.

    A signature that was checked and is wrong refuses the card. One that cannot be checked does not: no key
    server keeps an agent from coming back. Such a card counts as unverified.
    """

    def __init__(self, key_sets: KeySets, verify: Verify, hosts: Collection[str], log: Log) -> None:
        self._key_sets = key_sets
        self._verify = verify
        self._hosts = hosts
        self._log = log

    async def judge(self, workspace_id: str, card: dict[str, Any]) -> str:
        """`unsigned`, `verified` or `unverified`. Refuses a card with a bad signature. May take seconds."""
        claims = rules.claims_of(card)
        if not claims:
            return "unsigned"
        covered = [encoded(each) for each in rules.covered(card)]
        origins = [self._key_sets.origin(address) for address in rules.addresses_of(card)]
        judged = await asyncio.gather(*(self._judged(claim, covered, origins) for claim in claims))
        for claim, verdict in zip(claims, judged, strict=True):
            if verdict.is_valid is False:
                rules.bad_signature(claim)
        if any(verdict.is_valid for verdict in judged):
            return "verified"
        why = "; ".join(dict.fromkeys(verdict.why for verdict in judged))
        self._log.warning("the signature of a card cannot be checked", workspace_id=workspace_id, why=why)
        return "unverified"

    async def _judged(
        self, claim: Claim, covered: Sequence[bytes], origins: Collection[rules.Origin | None]
    ) -> _Verdict:
        place = None if claim.jku is None else self._key_sets.origin(claim.jku)
        if claim.jku is None or place is None or not rules.may_vouch(place, origins, self._hosts):
            return _Verdict(None, "its jku is not at the card's own origin and no host that is allowed")
        try:
            found = await self._key_sets.keys(claim.jku)
            verdict = self._checked(claim, covered, found.keys)
            if not verdict.is_valid and found.is_kept:
                # Its key may be newer than what is kept of them, also under an old name.
                found = await self._key_sets.keys(claim.jku, anew=True)
                verdict = self._checked(claim, covered, found.keys)
        except NoKeys as problem:
            return _Verdict(None, str(problem))
        return verdict

    def _checked(self, claim: Claim, covered: Sequence[bytes], keys: Sequence[PublicKey]) -> _Verdict:
        named = [key for key in keys if claim.kid is not None and key.get("kid") == claim.kid]
        if len(named) > MAX_PER_KEY_ID:
            return _Verdict(None, f"its jku shows more than {MAX_PER_KEY_ID} keys of that kid")
        protected = claim.protected.encode()
        found = [
            self._verify(key, claim.alg, claim.signature, b"%b.%b" % (protected, each))
            for key in named
            for each in covered
        ]
        if True in found:
            return _Verdict(True)
        if False in found:
            return _Verdict(False)
        return _Verdict(None, "its jku shows no key of that kid for that algorithm")
