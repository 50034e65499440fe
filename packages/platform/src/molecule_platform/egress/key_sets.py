"""JWKS documents of others: fetched through the guard, kept for some minutes, and once for all who ask."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from molecule_platform.domain.card_signatures import Origin
from molecule_platform.egress import exchange, guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.ports.key_sets import KeySet, NoKeys, PublicKey
from molecule_wire import jsontext

SECONDS = 3.0  # agents wait for it when they register, and not for long
MOST_BYTES = 64 * 1024
MAX_KEYS = 64
MAX_SETS = 256
KEPT_SECONDS = 300.0
AWAY_SECONDS = 2.0  # how long a place that does not answer is not asked again

_ASKED = {"Accept": "application/jwk-set+json, application/json"}


@dataclass(frozen=True)
class _CachedKeySet:
    keys: tuple[PublicKey, ...]
    problem: str
    at: float


class HttpKeySets:
    """See `ports.key_sets.KeySets`. Use it on one event loop."""

    def __init__(self, outbound: Outbound, now: Callable[[], float], seconds: float = SECONDS) -> None:
        self._outbound = outbound
        self._now = now
        self._seconds = seconds
        self._seen: dict[str, _CachedKeySet] = {}
        self._asking: dict[str, asyncio.Task[_CachedKeySet]] = {}

    def origin(self, url: str) -> Origin | None:
        """Where a URL leads, as the connector will read it."""
        try:
            place = self._outbound.way(url).place
        except guard.UnsafeUrl:
            return None
        return Origin(place.scheme, place.host, place.port)

    async def keys(self, url: str, *, anew: bool = False) -> KeySet:
        """The keys shown there. Raises `NoKeys`."""
        kept = None if anew else self._kept(url)
        seen = kept or await self._asked(url)
        if seen.problem:
            raise NoKeys(seen.problem)
        return KeySet(seen.keys, is_kept=kept is not None)

    def _kept(self, url: str) -> _CachedKeySet | None:
        seen = self._seen.get(url)
        if seen is None or self._now() - seen.at > (AWAY_SECONDS if seen.problem else KEPT_SECONDS):
            return None
        return seen

    async def _asked(self, url: str) -> _CachedKeySet:
        task = self._asking.get(url)
        if task is None:
            task = self._asking[url] = asyncio.get_running_loop().create_task(self._fetched(url))
            task.add_done_callback(lambda _done: self._asking.pop(url, None))
        return await asyncio.shield(task)

    async def _fetched(self, url: str) -> _CachedKeySet:
        try:
            keys, problem = await self._fetch(url), ""
        except NoKeys as why:
            keys, problem = (), str(why)
        seen = _CachedKeySet(keys, problem, self._now())
        # Keys that are still good outlive a moment in which nobody shows them.
        if not problem or self._kept(url) is None:
            self._keep(url, seen)
        return seen

    def _keep(self, url: str, seen: _CachedKeySet) -> None:
        self._seen.pop(url, None)
        while len(self._seen) >= MAX_SETS:
            del self._seen[next(iter(self._seen))]
        self._seen[url] = seen

    async def _fetch(self, url: str) -> tuple[PublicKey, ...]:
        try:
            answer = await exchange.exchange(
                self._outbound,
                "GET",
                url,
                headers=_ASKED,
                data=None,
                seconds=self._seconds,
                most_bytes=MOST_BYTES,
                whom="the key server",
            )
        except (guard.UnsafeUrl, exchange.NoResponse, exchange.BodyTooLarge) as problem:
            raise NoKeys(str(problem)) from problem
        if answer.status != 200:
            raise NoKeys(f"the key server answered HTTP {answer.status}")
        return _read(answer.body)


def _read(body: bytes) -> tuple[PublicKey, ...]:
    try:
        document = jsontext.decode(body)
    except jsontext.NotJSON as problem:
        raise NoKeys("the key server's answer is no JSON") from problem
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise NoKeys("the key server's answer is no JWKS: it has no list of keys")
    return tuple(key for key in listed[:MAX_KEYS] if isinstance(key, dict))
