"""The JWKS cache as a policy: when to fetch, what to use meanwhile, and that only one fetches at a time."""

import asyncio
import base64
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molecule_wire import JSON, caller_keys
from molecule_wire.caller_keys import KeyCache, KeysUnreadable, VerificationKeys

PLATFORM = "https://platform.example:8443/prefix"
PUBLIC = bytes(range(32))


def jwk(kid: str, public: bytes = PUBLIC, **changes: JSON) -> dict[str, JSON]:
    x = base64.urlsafe_b64encode(public).rstrip(b"=").decode()
    return {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": x, "kid": kid, **changes}


def document(*kids: str) -> dict[str, JSON]:
    return {"issuer": "https://issuer.example", "keys": [jwk(kid) for kid in kids]}


def fetched(*kids: str, at: float = 0.0) -> KeyCache:
    """A cache whose keys were asked for at a time."""
    cache = KeyCache(PLATFORM)
    assert cache.look("any", at).action == "fetch"
    cache.end_fetch(document(*kids), at)
    return cache


def test_keys_are_fetched_at_the_first_assertion_and_used_for_five_minutes() -> None:
    cache = KeyCache(PLATFORM)
    assert cache.look("k1", 0.0) == ("fetch", None, 0.0)
    assert cache.document_url == f"{PLATFORM}/.well-known/jwks.json"
    cache.end_fetch(document("k1"), 1.0)
    for now in (1.0, 299.9):
        action, keys, _ = cache.look("k1", now)
        assert action == "use"
        assert keys == ("https://issuer.example", {"k1": PUBLIC})
    assert cache.look("k1", 300.0).action == "fetch", "the age counts from the question, not from the answer"


def test_while_one_fetches_the_others_use_the_old_keys_or_wait() -> None:
    cache = fetched("k1")
    first = cache.look("k1", 300.0)
    assert (first.action, first.keys is not None) == ("fetch", True), "an event loop may fetch aside"
    assert cache.look("k1", 300.1).action == "use"
    assert cache.look("unknown", 300.2).action == "wait"
    cache.end_fetch(document("k1", "unknown"), 301.0)
    assert cache.look("unknown", 301.0).action == "use"


def test_without_any_keys_everybody_waits_for_the_one_who_fetches() -> None:
    cache = KeyCache(PLATFORM)
    assert [cache.look("k1", now).action for now in (0.0, 0.1, 4.9)] == ["fetch", "wait", "wait"]
    cache.end_fetch(document("k1"), 5.0)
    assert cache.look("k1", 5.0).action == "use"


def test_a_fetch_of_which_nothing_is_heard_is_given_to_somebody_else() -> None:
    cache = KeyCache(PLATFORM)
    assert cache.look("k1", 0.0).action == "fetch"
    assert cache.look("k1", caller_keys.FETCH_LEASE_SECONDS - 0.1).action == "wait"
    assert cache.look("k1", caller_keys.FETCH_LEASE_SECONDS).action == "fetch"


def test_an_unknown_key_is_asked_for_at_most_once_a_minute() -> None:
    cache = fetched("old")
    unknown = cache.look("new", 59.9)
    assert unknown.action == "use"
    assert unknown.keys is not None
    assert "new" not in unknown.keys.keys, "so there is no such key"
    assert cache.look("new", 60.0).action == "fetch"
    cache.end_fetch(document("old", "new"), 60.0)
    assert cache.look("new", 60.0).action == "use"


def test_a_platform_that_is_away_is_asked_again_after_a_pause_and_its_keys_are_good_for_an_hour() -> None:
    cache = fetched("k1")
    assert cache.look("k1", 300.0).action == "fetch"
    cache.end_fetch(None, 305.0)
    assert cache.look("k1", 309.9).action == "use"
    assert cache.look("k1", 310.0).action == "fetch", "the pause counts from the end of the attempt"
    cache.end_fetch(None, 3598.0)
    assert cache.look("k1", 3599.9).action == "use"
    assert cache.look("k1", 3600.0) == ("unavailable", None, 3.0)


def test_nothing_is_said_of_an_unknown_key_while_the_platform_is_away() -> None:
    cache = fetched("k1")
    assert cache.look("new", 60.0).action == "fetch"
    cache.end_fetch(None, 60.0)
    assert cache.look("new", 61.0) == ("unavailable", None, 4.0), "it may be one that the platform has now"
    assert cache.look("k1", 61.0).action == "use"


def test_keys_of_other_kinds_are_left_out_and_a_missing_issuer_is_the_origin() -> None:
    others: list[JSON] = [
        7,
        {},
        jwk("ec", kty="EC"),
        jwk("x", crv="X25519"),
        jwk("rs", alg="RS256"),
        jwk("x") | {"kid": None},
    ]
    read = caller_keys.read_keys({"keys": [*others, jwk("k1")]}, PLATFORM)
    assert read == ("https://platform.example:8443", {"k1": PUBLIC})


@pytest.mark.parametrize(
    "shape",
    [None, [], "text", {}, {"keys": 7}, {"keys": [jwk("k1", b"short")]}, {"keys": [jwk("k1", x="~")]}],
)
def test_what_is_no_jwks_document_counts_as_not_fetched(shape: Any) -> None:
    with pytest.raises(KeysUnreadable):
        caller_keys.read_keys(shape, PLATFORM)
    cache = fetched("k1")
    assert cache.look("k1", 300.0).action == "fetch"
    cache.end_fetch(shape, 300.0)
    assert cache.look("k1", 301.0).action == "use"


moves = st.lists(
    st.tuples(
        st.sampled_from(["look k1", "look k2", "end k1", "end k1 k2", "end nothing"]), st.floats(0, 400)
    ),
    max_size=60,
)


@given(moves)
@example([("look k1", 2.3051236164737823), ("look k1", 30.0)])
def test_whatever_happens_at_most_one_fetches_and_old_keys_are_never_used(
    moves: list[tuple[str, float]],
) -> None:
    cache, now, fetching_since, known_since = KeyCache(PLATFORM), 0.0, None, None
    for move, seconds in moves:
        now += seconds
        verb, *kids = move.split()
        if verb == "end":
            if fetching_since is not None:
                is_there = kids != ["nothing"]
                cache.end_fetch(document(*kids) if is_there else None, now)
                known_since, fetching_since = fetching_since if is_there else known_since, None
            continue
        decision = cache.look(kids[0], now)
        if decision.action == "fetch":
            # Added, as the cache does it: a difference of two times is a little less than 30 s at times.
            assert fetching_since is None or now >= fetching_since + caller_keys.FETCH_LEASE_SECONDS
            fetching_since = now
        if decision.keys is not None:
            assert known_since is not None
            assert now - known_since < caller_keys.STALE_SECONDS
        assert (decision.action == "use") <= (decision.keys is not None)
        assert (decision.action == "wait") <= (fetching_since is not None)
        assert (decision.action == "unavailable") == (decision.retry_after > 0)


class EventLoopKeys:
    """The cache as a server on an event loop uses it: no lock, and a refresh that nobody waits for."""

    def __init__(self, *kids: str) -> None:
        self.cache, self.now, self.fetches = KeyCache(PLATFORM), 0.0, 0
        self.document, self.let_go, self.ended = document(*kids), asyncio.Event(), asyncio.Event()
        self.refresh: asyncio.Task[None] | None = None

    async def fetch(self) -> None:
        self.fetches += 1
        await self.let_go.wait()
        self.cache.end_fetch(self.document, self.now)
        self.ended.set()

    async def for_key(self, kid: str) -> VerificationKeys:
        while True:
            decision = self.cache.look(kid, self.now)
            if decision.action == "fetch":
                self.ended.clear()
                self.refresh = asyncio.create_task(self.fetch())
            if decision.keys is not None:
                return decision.keys
            await self.ended.wait()


async def test_on_an_event_loop_one_fetch_serves_all_and_a_refresh_delays_nobody() -> None:
    keys = EventLoopKeys("k1")
    waiting = [asyncio.create_task(keys.for_key("k1")) for _ in range(20)]
    await asyncio.sleep(0)
    keys.let_go.set()
    found = await asyncio.wait_for(asyncio.gather(*waiting), 10)
    assert {key for one in found for key in one.keys} == {"k1"}
    assert keys.fetches == 1
    keys.let_go.clear()
    keys.now = 300.0
    again = [await asyncio.wait_for(keys.for_key("k1"), 10) for _ in range(20)]
    assert again == found, "with the keys of before, since the refresh has not ended"
    await asyncio.sleep(0)
    assert keys.fetches == 2
    keys.let_go.set()
    assert keys.refresh is not None
    await asyncio.wait_for(keys.refresh, 10)
